"""`hwheel trace`: tasks travel down a wheel, step by step."""
