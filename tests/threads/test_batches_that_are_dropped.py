"""A batch that somebody cancels and drops at the very moment at which a thread of the timer takes it up."""

import os
import sysconfig

import pytest

SCRIPT = """
import sys, threading, time
from array import array
from hwheel import SystemTimer

sys.setswitchinterval(1e-6)
timer = SystemTimer(executor={executor})
stop = threading.Event()

def contend():
    # The thread that takes a batch up finds the lock taken, and so gives up the GIL while it does.
    delays_ms = array("q", [60_000] * 4000)
    while not stop.is_set():
        timer.call_many(delays_ms, len).cancel()

def drop(length):
    delays_ms = array("q", [1] * length)
    while not stop.is_set():
        batch = timer.call_many(delays_ms, len)
        late = time.perf_counter() + 0.0008
        while batch.pending == length and time.perf_counter() < late:
            pass
        batch.cancel()
        del batch

threads = [threading.Thread(target=contend) for _ in range(2)]
threads += [threading.Thread(target=drop, args=(length,)) for length in (1, 3, 50, 1)]
for thread in threads:
    thread.start()
time.sleep({seconds})
stop.set()
for thread in threads:
    thread.join()
assert timer.close() == []
stats = timer.stats()
assert stats.pending == 0 and stats.added == stats.expired + stats.cancelled, stats
"""


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="PYTHONMALLOC=malloc is not for this CPython"
)
@pytest.mark.parametrize("executor", ["None", "'inline'"])
def test_memory_of_a_dropped_batch_is_not_touched_again(script, soak_seconds, monkeypatch, executor):
    # Freed memory is overwritten, so that whoever still reads it does not get away with it.
    monkeypatch.setitem(os.environ, "PYTHONMALLOC", "malloc")
    monkeypatch.setitem(os.environ, "MALLOC_PERTURB_", "165")
    process = script(SCRIPT.format(executor=executor, seconds=2 * soak_seconds))
    output, errors = process.communicate(timeout=200 + soak_seconds)
    assert (process.returncode, output, errors) == (0, "", "")
