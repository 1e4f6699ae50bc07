"""Interpreter exit with containers in use neither hangs nor prints errors."""

import pytest


@pytest.mark.parametrize("timer", ["None", "SystemTimer('own')", "SystemTimer('inline', executor='inline')"])
def test_exit_with_pending_and_expiring_entries(run_script, timer):
    ended = run_script(
        f"""
from hwheel import ExpiringDict

ends, told = [], []

class Value:
    # A default argument, because without a GIL CPython clears the module before its values are finalized.
    def __del__(self, ends=ends):
        ends.append(1)

d = ExpiringDict(60, timer={timer}, on_expire=told.extend)
for i in range(200_000):
    d[i] = i
for i in range(50_000):
    d.set(-i, Value(), ttl=0.001 * (1 + i % 500))
eventually(lambda: told)
print(len(d) >= 200_000)
"""
    )
    assert ended == (0, "True\n", "")


def test_exit_during_on_expire(ends_well):
    ends_well(
        """
from hwheel import ExpiringDict
entered = threading.Event()
d = ExpiringDict(0.001, on_expire=lambda pairs: (entered.set(), time.sleep(1000)))
d["a"] = 1
assert entered.wait(60)
d["b"] = 2
"""
    )


def test_exit_with_daemon_threads_waiting_in_queues(ends_well):
    ends_well(
        """
from hwheel import DelayQueue
q, full = DelayQueue(), DelayQueue(1, timer=ManualTimer())
for i in range(100_000):
    q.put([i], 60 + i)
full.put("a", 5)
for wait in [q.get, lambda: full.put("b", 1)]:
    threading.Thread(target=wait, daemon=True).start()
eventually(lambda: len(q.timer) == 1)
time.sleep(0.05)
"""
    )


def test_exit_with_a_waiting_coroutine_and_a_queue_that_outlives_its_loop(ends_well):
    ends_well(
        """
import asyncio
from hwheel.asyncio import DelayQueue
q = DelayQueue()

async def main():
    task = asyncio.create_task(q.get())
    await q.put("far", 3600)
    await q.put("near", 0.001)
    assert await task == "near"
    asyncio.create_task(q.get())
    await asyncio.sleep(0)

asyncio.run(main())
q.put_nowait("after it", 0.001)
"""
    )


def test_containers_are_usable_while_the_interpreter_exits(run_script):
    """Exit handlers run after hwheel's if they were registered before its import. Daemon threads still run then."""
    ended = run_script(
        """
import atexit
from hwheel import DelayQueue, ExpiringDict, TimerClosed
from hwheel.timers import lifecycle
used = threading.Event()

def use():
    sessions["b"] = queue.put("b", 0)
    assert sessions.setdefault("c", 1) == 1 and sessions.touch("a") and sorted(sessions) == ["a", "b", "c"]
    assert [*ExpiringDict(60)] == [] and queue.get() == "b"

def thread():
    finished.wait(60)
    use()
    used.set()
    DelayQueue().get()  # waits for the end

def at_exit():
    finished.set()
    assert used.wait(60)
    use()
    try:
        queue.get()
    except TimerClosed:  # nothing would wake the main thread
        os._exit(5)

finished = threading.Event()
atexit.unregister(lifecycle._notify)
atexit.register(at_exit)
atexit.register(lifecycle._notify, "_at_exit")
sessions, queue = ExpiringDict(60), DelayQueue()
sessions["a"] = 1
threading.Thread(target=thread, daemon=True).start()
"""
    )
    assert ended == (5, "", "")


def test_containers_of_a_closed_timer_refuse_entries_also_at_exit(ends_well):
    ends_well(
        """
from hwheel import ExpiringDict, TimerClosed
timer = SystemTimer()
sessions = ExpiringDict(60, timer=timer)
timer.close()
timer._at_exit()
try:
    sessions["a"] = 1
except TimerClosed:
    pass
else:
    raise AssertionError
"""
    )
