"""``hwheel demo``: run request timeouts on a real timer and on its peers, and compare."""
