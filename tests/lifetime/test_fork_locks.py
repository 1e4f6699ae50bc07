"""Right after fork: whatever other threads do at the fork, also inside the lock: no deadlock, nothing halved."""

import os

import pytest

from systems import FREE_THREADED

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

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
    if timer._keep:
        assert len(timer) >= 1
        assert all(task.cancel() for task in timer.pending() if task.delay_ms == 3_600_000)
    else:
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

class Timer(SystemTimer):
    _keep = False

"""

WORK = {
    "adding and cancelling tasks": ["timer.call_later(3600, int).cancel()"] * 2,
    "bulk adding and cancelling": ["timer.call_many(many, int).cancel()"] * 2,
    "bulk cancelling by index": ["cancel_in_two_steps()"],
    "tasks that fall due": ["timer.call_later(0.001, int); time.sleep(0.0001)"] * 2,
    # With others at the lock, who takes a batch up waits for it in between, and the fork finds it there.
    "batches that fall due": ["timer.call_many(soon, len); time.sleep(0.002)"] * 2
    + ["timer.call_many(many, int).cancel()"] * 2,
    "a batch that is extended": [
        "extended.extend(soon, len); time.sleep(0.002)",
        "extended.pending > 50_000 or extended.extend(soon, len)",  # or each fork copies the tables of gigabytes
        "extended.cancel()",
    ],
    "timers made and closed": ["make_and_close()"],
    "stats and pending": ["timer.stats(); timer.pending()", "move()"],
}


@pytest.mark.parametrize("executor", ["None", "'inline'"])
@pytest.mark.parametrize("work", WORK)
def test_forks_while_other_threads_work(ends_well, work, executor):
    loops = "\n".join(f"forever(lambda: ({line.replace(';', ',')}))," for line in WORK[work])
    ends_well(
        FORK_OFTEN
        + f"""
timer = Timer(executor={executor})
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


def test_forks_while_batches_fall_due_with_keep_lose_nothing_in_the_parent(ends_well):
    ends_well(
        FORK_OFTEN
        + """
timer = Timer(fork="keep")
timer._keep = True
timer.call_later(3600, int)
added, ran = [], []

def add():
    added.append(timer.call_many(array("q", [1, 2, 3] * 500), ran.extend))
    time.sleep(0.005)

workers = [forever(add), forever(add)]
try:
    for _ in range(60):
        in_child(child)
        time.sleep(0.001)
finally:
    stop.set()
for worker in workers:
    worker.join()
eventually(lambda: len(timer) == 1)
timer.close(run_pending=True)
assert len(ran) == 1500 * len(added)
"""
    )


def test_a_kept_batch_that_falls_due_at_the_fork_is_delivered_whole_in_the_child_or_was_on_its_way_in_the_parent(
    ends_well,
):
    # What the parent's executor had taken for a callback is the parent's. Everything else is the child's too, and gets
    # there: nothing may stay pending for ever.
    ends_well(
        FORK_OFTEN
        + """
timer = SystemTimer(fork="keep", executor="inline")

added = []

def add():
    added.append(timer.call_many(array("q", [1, 2, 3] * 500), len))
    del added[:-50]
    time.sleep(0.001)

def keep_child():
    eventually(lambda: all(batch.pending == 0 for batch in added))
    timer.close()

def contend():              # makes who takes a batch up wait for the lock in between
    timer.call_many(array("q", [3_600_000] * 20_000), int).cancel()

workers = [forever(add), forever(add), forever(contend), forever(contend)]
try:
    for _ in range(60):
        in_child(keep_child)
finally:
    stop.set()
for worker in workers:
    worker.join()
timer.close()
"""
    )


@pytest.mark.skipif(not FREE_THREADED, reason="with a GIL objects have no locks")
@pytest.mark.parametrize("fork", ["drop", "keep"])
def test_a_batchs_lock_that_a_thread_was_about_to_get_is_free_in_the_child(ends_well, fork):
    """CPython hands the lock of an object to who has waited for it, also where that thread is stopped for the fork."""
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
