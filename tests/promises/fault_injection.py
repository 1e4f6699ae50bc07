"""Threads that cannot be started. Each program prints the faults."""

import faulthandler
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

from account import Account, timer_threads
from hwheel import SystemTimer

HANG_S = 30

# The function that threading.Thread.start() calls. CPython 3.13 renamed it.
NEW_THREAD = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"

STARTS = {
    f"{error.__name__} at {where} of thread {number} / {executor}": (error, where, number, executor)
    for error, where in [
        (RuntimeError, "start_new_thread"),
        (MemoryError, "start_new_thread"),
        (KeyboardInterrupt, "start_new_thread"),
        (RuntimeError, "Thread.start"),
        (KeyboardInterrupt, "the end of Thread.start"),
    ]
    for number, executor in [(0, "own"), (1, "own"), (0, "inline"), (0, "pool")]
}


class FaultyStart:
    """A context in which the start of one thread raises."""

    def __init__(self, error, where, number):
        self.error, self.where, self.number = error, where, number
        self.count = itertools.count()
        self.start, self.new_thread = threading.Thread.start, getattr(threading, NEW_THREAD)

    def __enter__(self):
        def start(thread):
            if next(self.count) == self.number:
                if self.where == "the end of Thread.start":
                    self.start(thread)
                raise self.error("can't start new thread")
            self.start(thread)

        def new_thread(*args, **kwargs):
            if next(self.count) == self.number:
                raise self.error("can't start new thread")
            return self.new_thread(*args, **kwargs)

        if self.where == "start_new_thread":
            setattr(threading, NEW_THREAD, new_thread)
        else:
            threading.Thread.start = start

    def __exit__(self, *exc_info):
        setattr(threading, NEW_THREAD, self.new_thread)
        threading.Thread.start = self.start


def without_thread(name):
    """Let the first add of a timer fail to start a thread: it raises and changes nothing, and later adds work."""
    error, where, number, executor = STARTS[name]
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    pool, account = ThreadPoolExecutor(1), Account()
    pool.submit(int).result()
    timer = SystemTimer(executor={"own": None, "inline": "inline", "pool": pool}[executor])
    refused = False
    try:
        with FaultyStart(error, where, number):
            account.later(timer, 0.001)
    except error:
        refused = True
    threads = 2 if executor == "own" else 1
    if not refused and number < threads:
        print("the add was not refused")
    if refused and len(timer):
        print(f"the add was refused, but {len(timer)} are pending")
    for _ in range(2):
        ran = threading.Event()
        timer.call_later(0.001, ran.set)
        if not ran.wait(8):
            print("after a thread could not be started, a later task does not run")
            break
    if len(names := timer_threads()) != threads:
        print(f"expected {threads} threads, found {names}")
    pool.shutdown()
    account.close(timer)
    print(*account.faults(timer), sep="\n", end="")
