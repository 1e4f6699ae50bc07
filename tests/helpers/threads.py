"""Threads whose errors reach the test, and an executor that a test drives by hand."""

import queue
import threading
from functools import partial

from waiting import PATIENCE_WITH_MACHINE_S


def errors_in_threads(functions):
    """Call each function in its own thread, join the threads, and return the exceptions that were raised."""
    errors = []

    def call(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def run_concurrently(*functions):
    """Call each function in its own thread, all from the same moment on. Raise the first exception of any of them."""
    begin = threading.Barrier(len(functions))

    def call(function):
        begin.wait()
        function()

    for error in errors_in_threads([partial(call, function) for function in functions]):
        raise error


def call_in_thread(function):
    """Return function() of another thread. Fail if it hangs: then the calling thread still holds a lock."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(PATIENCE_WITH_MACHINE_S)
    assert not thread.is_alive(), "the other thread hangs, probably on a lock that this one still holds"
    return results[0]


class ManualExecutor:
    """An executor that keeps submitted calls until run_one(), or until the test takes them from `calls`."""

    def __init__(self):
        self.calls = queue.SimpleQueue()

    def submit(self, function, *args):
        self.calls.put((function, args))

    def run_one(self):
        function, args = self.calls.get(timeout=PATIENCE_WITH_MACHINE_S)
        function(*args)
