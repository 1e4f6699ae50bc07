"""Work in threads of its own, whose errors are not lost."""

import threading


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
