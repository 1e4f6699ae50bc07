"""`hwheel demo`: request timeouts on a real timer, and what its peers make of them."""
