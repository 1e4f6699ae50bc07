"""hwheel.DelayQueue in one thread: order, deadlines, capacity, shutdown, memory."""

import queue
import time
import weakref

import pytest

from hwheel import DelayQueue, SystemTimer, TimerClosed
from hwheel.types import DelayKey, ShutDown


def test_get_returns_an_item_at_its_deadline_and_not_before(timer):
    q = DelayQueue(timer=timer)
    q.put("a", 1)
    timer.advance(0.999)
    with pytest.raises(queue.Empty):
        q.get_nowait()
    timer.advance(0.001)
    assert q.get_nowait() == "a" and len(q) == 0 and q.empty()


def test_key_of_another_queue_is_refused(timer):
    q, other = DelayQueue(timer=timer), DelayQueue(timer=timer)
    key = other.put("a", 1)
    with pytest.raises(KeyError):
        q.remove(key)
    assert q.reset(key, 5) is False and key.deadline == 1 and other.remove(key) == "a"
    for bad in [None, 5, "key"]:
        for use in [q.remove, lambda key: q.reset(key, 1)]:
            with pytest.raises(TypeError):
                use(bad)


def test_full_queue_refuses_items_until_there_is_room(timer):
    q = DelayQueue(2, timer=timer)
    first = q.put("a", 1)
    q.put("b", 1)
    assert q.full() and q.maxsize == 2 and q.qsize() == 2
    with pytest.raises(queue.Full):
        q.put_nowait("c", 1)
    with pytest.raises(queue.Full):
        q.put("c", 1, block=False)
    with pytest.raises(queue.Full):
        q.put("c", 1, timeout=0.01)
    assert q.reset(first, 2)  # a reset needs no room
    q.remove(first)
    q.put("c", 1)
    assert q.drain() == ["b", "c"]


def test_immediate_shutdown_drops_pending_items(timer):
    class Thing:
        pass

    q = DelayQueue(timer=timer)
    thing = Thing()
    end = weakref.ref(thing)
    key = q.put(thing, 1)
    del thing
    q.shutdown(immediate=True)
    assert end() is None and not key.pending and len(q) == 0
    with pytest.raises(ShutDown):
        q.get(timeout=5)


def test_shutdown_error_is_the_one_of_the_standard_library_where_it_exists():
    assert ShutDown is getattr(queue, "ShutDown", ShutDown) and issubclass(ShutDown, Exception)


BAD = [
    (float("nan"), ValueError),
    (float("inf"), ValueError),
    (True, TypeError),
    ("1", TypeError),
    (None, TypeError),
    (10**30, OverflowError),
    (2**63 // 1000, OverflowError),
]


@pytest.mark.parametrize(("delay", "error"), BAD)
def test_invalid_delay_is_refused_and_changes_nothing(timer, delay, error):
    timer.advance(1)
    q = DelayQueue(timer=timer)
    key = q.put("a", 1)
    with pytest.raises(error):
        q.put("b", delay)
    with pytest.raises(error):
        q.reset(key, delay)
    assert len(q) == 1 and key.deadline == 2


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", True])
def test_invalid_timeout_is_refused(timer, timeout):
    q = DelayQueue(timer=timer)
    with pytest.raises((ValueError, TypeError)):
        q.get(timeout=timeout)


@pytest.mark.parametrize(
    ("maxsize", "error"), [("5", TypeError), (True, TypeError), (2.5, TypeError), (2**70, OverflowError)]
)
def test_invalid_maxsize_is_refused(timer, maxsize, error):
    with pytest.raises(error):
        DelayQueue(maxsize, timer=timer)


def test_timeout_is_in_real_time_and_may_be_infinite(timer):
    q = DelayQueue(timer=timer)
    q.put("a", 0)
    assert q.get(timeout=float("inf")) == "a"
    q.put("b", 3600)
    begin = time.monotonic()
    with pytest.raises(queue.Empty):
        q.get(timeout=0.05)
    assert time.monotonic() - begin >= 0.05


def test_closed_timer_refuses_put_reset_and_waiting():
    timer = SystemTimer()
    q = DelayQueue(timer=timer)
    q.put("a", 0)
    key = q.put("b", 3600)
    timer.close()
    with pytest.raises(TimerClosed):
        q.put("c", 1)
    with pytest.raises(TimerClosed):
        q.reset(key, 1)
    assert q.get() == "a"
    with pytest.raises(TimerClosed):
        q.get()
    with pytest.raises(queue.Empty):
        q.get_nowait()
    assert q.drain() == ["b"]


def test_default_timer_is_shared():
    q, other = DelayQueue(), DelayQueue()
    assert q.timer is other.timer and q.timer.name == "delaying"
    begin = time.monotonic()
    q.put("a", 0.05)
    assert q.get(timeout=60) == "a" and time.monotonic() - begin >= 0.05


def test_items_are_released_when_they_leave_the_queue(timer):
    class Thing:
        pass

    q = DelayQueue(timer=timer)
    ends, keys = [], []
    for _ in range(5):
        thing = Thing()
        ends.append(weakref.ref(thing))
        keys.append(q.put(thing, 1))
        del thing
    q.remove(keys[0])
    assert ends[0]() is None
    timer.advance(1)
    q.get()
    assert ends[1]() is None
    del q
    assert [end() for end in ends] == [None] * 5 and [key.item for key in keys] == [None] * 5


def test_finalizer_of_an_item_may_use_the_queue(timer):
    q = DelayQueue(timer=timer)

    class Ends:
        def __del__(self):
            q.put("from the end", 0)

    q.put(Ends(), 1)
    q.remove(q.peek())
    q.put(Ends(), 1)
    assert q.get() == "from the end" and len(q.drain()) == 1
    assert q.drain() == ["from the end"]


def test_only_put_creates_keys(timer):
    q = DelayQueue(timer=timer)
    key = q.put("a", 1.5)
    with pytest.raises(TypeError):
        type(key)()
    assert repr(DelayKey[int]) == "hwheel.types.DelayKey[int]"
    assert repr(key) == "<DelayKey pending, deadline 1.5 s>" and repr(q) == "<DelayQueue, 1 item>" and bool(q)
    bare = type(key).__new__(type(key))
    assert (bare.item, bare.pending) == (None, False) and q.reset(bare, 1) is False
    with pytest.raises(KeyError):
        q.remove(bare)


def test_methods_without_init_raise():
    q = DelayQueue.__new__(DelayQueue)
    for call in [lambda: q.put("a", 1), q.get, q.peek, q.drain, lambda: len(q), q.shutdown, lambda: q.timer]:
        with pytest.raises(RuntimeError, match="has not been set up"):
            call()


def test_remaining_time_of_a_key(timer):
    q = DelayQueue(timer=timer)
    key = q.put("a", 1.5)
    timer.advance(1)
    assert key.remaining() == 0.5
    timer.advance(1)
    assert key.remaining() == 0.0 and key.pending
    q.reset(key, 2)
    assert key.remaining() == 2.0
    assert q.remove(key) == "a" and key.remaining() == 0.0
