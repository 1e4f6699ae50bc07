"""What Spark's Python workers do between tasks, made short.

A worker that has done a task collects garbage, all generations, and on two cores that stands in the way of those who
still work on the batch: for the 80,000 objects that pandas, pyarrow and pyspark have brought into memory, and that stay
for good, it took 30 to 40 ms at each task of each worker. So they are shown to the collector no more.
"""

import gc

from pyspark import TaskContext

TASKS = 2  # what the first task still imports is there at the second

tasks_begun = 0


def begin_task() -> None:
    """Called by all that runs in a worker, at its begin: that is behind a collection, so little garbage stays with it.

    Of objects that are there at a worker's first two tasks the collector frees no cycles any more; by reference count
    they are freed as ever. Outside of a worker it does nothing.
    """
    global tasks_begun
    if tasks_begun < TASKS and TaskContext.get() is not None:
        tasks_begun += 1
        gc.freeze()
