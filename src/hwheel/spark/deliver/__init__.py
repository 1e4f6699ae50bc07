"""`hwheel deliver`: from files or a topic to files or a topic; and the content of its checkpoint."""
