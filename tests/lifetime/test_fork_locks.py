"""A fork while other threads use timers: the child does not deadlock, and no operation is half done."""

import os

import pytest

from systems import FREE_THREADED

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

FORK_OFTEN = """
stop = threading.Event()
sys.setswitchinterval(1e-5)

def forever(function):
    def loop():
        while not stop.is_set():
            function()
    thread = threading.Thread(target=loop)
    thread.start()
    return thread

def child():
    assert len(timer) == 0, len(timer)
    stats = timer.stats()
    assert stats.added == stats.expired + stats.cancelled, stats
    ran = []
    timer.call_later(0, ran.append, 1)
    batch = timer.call_many(array("q", [1]), ran.extend)
    batch.extend(array("q", [2]), ran.extend)
    eventually(lambda: len(ran) == 3)
    timer.call_later(60, int).cancel()
    timer.close()

"""

WORK = {
    "adding and cancelling tasks": ["timer.call_later(3600, int).cancel()"] * 2,
    "bulk adding and cancelling": ["timer.call_many(many, int).cancel()"] * 2,
    "bulk cancelling by index": ["cancel_in_two_steps()"],
    "expiring tasks": ["timer.call_later(0.001, int); time.sleep(0.0001)"] * 2,
    # Two threads contend for the lock, so that the fork finds a thread between two steps of dispatching a batch.
    "expiring batches": ["timer.call_many(soon, len); time.sleep(0.002)"] * 2
    + ["timer.call_many(many, int).cancel()"] * 2,
    "a batch that is extended": [
        "extended.extend(soon, len); time.sleep(0.002)",
        "extended.pending > 50_000 or extended.extend(soon, len)",  # limits the memory that each fork copies
        "extended.cancel()",
    ],
    "creating and closing timers": ["make_and_close()"],
    "stats and pending": ["timer.stats(); timer.pending()", "move()"],
}


@pytest.mark.parametrize("executor", ["None", "'inline'"])
@pytest.mark.parametrize("work", WORK)
def test_a_fork_while_other_threads_work(ends_well, work, executor):
    loops = "\n".join(f"forever(lambda: ({line.replace(';', ',')}))," for line in WORK[work])
    ends_well(
        FORK_OFTEN
        + f"""
timer = SystemTimer(executor={executor})
many, some = array("q", [3_600_000] * 20_000), array("q", range(0, 20_000, 2))
soon = array("q", [1, 2, 3] * 1000)
extended = timer.call_many(some[:0], len)

def make_and_close():
    other = SystemTimer()
    other.call_later(5, int)
    other.close()

def move():
    task = timer.call_later(3600, int)
    task.reschedule(0.005)
    task.cancel()

def cancel_in_two_steps():
    batch = timer.call_many(many, int)
    batch.cancel(some)
    batch.cancel()

timer.call_later(3600, int)
workers = [
{loops}
]
try:
    for _ in range(60):
        in_child(child)
        time.sleep(0.001)
finally:
    stop.set()
for worker in workers:
    worker.join()
timer.close()
stats = timer.stats()
assert stats.pending == 0
"""
    )


@pytest.mark.skipif(not FREE_THREADED, reason="objects have no locks in a build with a GIL")
@pytest.mark.parametrize("fork", ["drop", "keep"])
def test_the_lock_of_a_batch_is_free_in_the_child(ends_well, fork):
    """CPython may hand an object's lock to a waiting thread that does not exist in the child."""
    ends_well(f"""
import ctypes
OB_MUTEX = 10
timer = SystemTimer(fork={fork!r})
batch = timer.call_many(array("q", [3_600_000] * 3), int)
lock = ctypes.c_uint8.from_address(id(batch) + OB_MUTEX)

def child():
    assert batch.pending == (3 if {fork!r} == "keep" else 0)
    assert batch.cancel() == (3 if {fork!r} == "keep" else 0)
    timer.close()

assert lock.value == 0
lock.value = 1
in_child(child)
lock.value = 0
assert batch.cancel() == 3
""")


def test_a_fork_while_other_threads_use_groups(ends_well):
    ends_well(
        """
import hwheel_core
timer, stop = SystemTimer(executor="inline", fork="keep"), threading.Event()
groups = [timer.group() for _ in range(3)]

def use(group):
    while not stop.is_set():
        for i in range(50):
            group.call_later(i / 10_000 if i % 3 else 3600, int)
        if group.cancel() > 2000:
            break

threads = [threading.Thread(target=use, args=(group,)) for group in groups]
for thread in threads:
    thread.start()

def child():
    for group in groups:
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(group)
        left = len(group)
        group.call_later(3600, int)
        assert left - 100 < group.close() and len(group) == 0      # some expire before close()
    eventually(lambda: len(timer) == 0)
    assert timer.close() == []

for _ in range(10):
    in_child(child)
stop.set()
for thread in threads:
    thread.join()
timer.close()
"""
    )


CLOSE_AND_FORK = """
import os, random, threading, time
from array import array
from hwheel import SystemTimer

class Closing(SystemTimer):
    def _before_return(self, tasks):        # now the parent's close() has taken all tasks
        self.has_all = True

lost = 0
begin = time.monotonic()
for i in range({rounds}):
    if time.monotonic() - begin > 60:       # a round takes seconds on a slow build and a busy machine
        break
    timer = Closing(fork="keep")
    timer.has_all = False
    {add}
    closer = threading.Thread(target=timer.close)
    closer.start()
    time.sleep(random.random() * 0.03)
    pid = os.fork()
    if pid == 0:
        if timer.has_all:
            os._exit(0)
        count = sum(len(one.indices()) if hasattr(one, "indices") else 1 for one in timer.close())
        stats = timer.stats()
        os._exit(count != {count} or stats.added != count or stats.pending != 0)
    lost += os.waitpid(pid, 0)[1] != 0
    closer.join()
assert lost == 0, lost
"""


@pytest.mark.parametrize(
    ("add", "count", "rounds"),
    [
        ("timer.call_many(array('q', [60_000]) * 1_000_000, print)", 1_000_000, 40),
        ("[timer.call_later(60, print) for _ in range(30_000)]", 30_000, 15),
    ],
    ids=["a batch", "tasks"],
)
def test_a_fork_during_close_in_another_thread_loses_nothing(ends_well, add, count, rounds):
    ends_well(CLOSE_AND_FORK.format(add=add, count=count, rounds=rounds))
