"""The timers themselves: the compiled core with threads, executors, errors, and the life of the process around it."""
