"""Work in threads of its own, whose errors are not lost."""

import threading
from functools import partial


def errors_in_threads(works):
    """Calls each of these in a thread of its own, and waits for all of them. What they raised."""
    errors = []

    def call(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def all_at_once(*works):
    """Calls each of these in a thread of its own, all from the same moment on; raises what any of them has raised."""
    begin = threading.Barrier(len(works))

    def call(work):
        begin.wait()
        work()

    for error in errors_in_threads([partial(call, work) for work in works]):
        raise error
