"""`hwheel deliver`, which sends messages from files or a topic to files or a topic, and its checkpoint."""
