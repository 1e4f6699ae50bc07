"""`hwheel deliver`: messages from files or a topic into files or a topic, and what a checkpoint of it holds."""
