"""What Spark's Python workers do between tasks, made short.

A worker that has done a task collects garbage, all generations, and on two cores that stands in the way of those who
still work on the batch: what pandas, pyarrow and pyspark have brought into memory with them, some 80,000 objects that
stay for good, took 30 to 40 ms at each task of each worker. So they are shown to the collector no more.
"""

import gc

TASKS = 2  # what the first task still imports is there at the second

tasks_begun = 0


def begin_task() -> None:
    """Called by all that runs in a worker, at its begin: right after a collection, so no garbage stays with the rest.

    Of objects that are there at a worker's first two tasks the collector frees no cycles any more; by reference count
    they are freed as ever.
    """
    global tasks_begun
    tasks_begun += 1
    if tasks_begun <= TASKS:
        gc.freeze()
