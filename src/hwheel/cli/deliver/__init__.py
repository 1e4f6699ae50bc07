"""`hwheel deliver`."""
