"""hwheel.DelayQueue in one thread: order, deadlines, capacity, shutdown, memory."""

import queue
import random
import time
import weakref

import pytest

from containers import take_due
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


def test_order_is_by_deadline_then_by_put(timer):
    q = DelayQueue(timer=timer)
    for item, delay in [("c", 3), ("a", 1), ("a2", 1), ("far", 1000), ("b", 2), ("a3", 1)]:
        q.put(item, delay)
    timer.advance(5)
    q.put("now", 0)
    q.put("before now", -10)
    assert take_due(q) == ["a", "a2", "a3", "b", "c", "now", "before now"]
    timer.advance(1000)
    q.put("last", 0)
    assert take_due(q) == ["far", "last"]


def test_item_put_with_no_delay_follows_expired_items(timer):
    q = DelayQueue(timer=timer)
    q.put("one", 0.5)
    q.put("two", 1)
    timer.advance(10)
    q.put("three", 0)
    assert q.drain() == ["one", "two", "three"]


def test_reset_moves_an_item_earlier_or_later_and_behind_equal_deadlines(timer):
    q = DelayQueue(timer=timer)
    a, b, c = q.put("a", 1), q.put("b", 5), q.put("c", 2)
    assert q.reset(a, 2) and q.reset(b, 1) is True
    assert (a.deadline, b.deadline) == (2, 1)
    timer.advance(2)
    assert take_due(q) == ["b", "c", "a"]
    assert q.reset(c, 1) is False and len(q) == 0


def test_reset_postpones_an_expired_item(timer):
    q = DelayQueue(timer=timer)
    a, b = q.put("a", 1), q.put("b", 1)
    timer.advance(1)
    assert q.peek() is a
    assert q.reset(a, 1)
    assert take_due(q) == ["b"]
    timer.advance(1)
    assert take_due(q) == ["a"] and not b.pending


def test_remove_returns_the_item_once(timer):
    q = DelayQueue(timer=timer)
    a, b, c = q.put("a", 1), q.put("b", 1), q.put("c", 9)
    timer.advance(1)
    assert q.remove(b) == "b" and q.remove(c) == "c" and take_due(q) == ["a"]
    for key in [a, b, c]:
        assert (key.pending, key.item) == (False, None)
        with pytest.raises(KeyError):
            q.remove(key)
        assert q.reset(key, 1) is False


def test_remove_of_an_expired_item_keeps_its_neighbors(timer):
    for removed in range(6):
        q = DelayQueue(timer=timer)
        keys = [q.put(number, 1 + number // 2) for number in range(6)]
        timer.advance(5)
        q.peek()  # moves all items to the expired ones
        assert q.remove(keys[removed]) == removed
        assert take_due(q) == [number for number in range(6) if number != removed]


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


def test_equal_items_have_separate_keys(timer):
    q = DelayQueue(timer=timer)
    keys = [q.put("same", 1) for _ in range(3)]
    assert len({*keys}) == 3
    q.remove(keys[1])
    timer.advance(1)
    assert take_due(q) == ["same", "same"]


@pytest.mark.parametrize("seed", range(40))
def test_peek_returns_the_key_of_the_next_item(timer, seed):
    chance = random.Random(seed)
    q = DelayQueue(timer=timer)
    assert q.peek() is None
    for _ in range(60):
        for _ in range(chance.randrange(4)):
            q.put(object(), chance.choice([0, 0.001, 0.06, 0.064, 0.1, 4, 5, 300, 300, 1e6]))
        timer.advance(chance.choice([0, 0.03, 0.5, 4, 290]))
        key = q.peek()
        assert q.peek() is key
        if key is not None and key.deadline <= timer.time():
            assert q.get_nowait() is not None and not key.pending
    while len(q):
        key = q.peek()
        item = key.item
        timer.advance(max(0, key.deadline - timer.time()))
        assert q.get_nowait() is item


def test_drain_empties_the_queue_in_order(timer):
    q = DelayQueue(timer=timer)
    keys = [q.put(delay, delay) for delay in [5, 1, 1e6, 3]]
    timer.advance(2)
    assert q.drain() == [1, 3, 5, 1e6] and len(q) == 0 and not any(key.pending for key in keys)
    assert q.drain() == []
    q.put("again", 1)
    timer.advance(1)
    assert take_due(q) == ["again"]


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
    assert q.reset(first, 2)  # needs no room
    q.remove(first)
    q.put("c", 1)
    assert q.drain() == ["b", "c"]


def test_shutdown_lets_pending_items_expire_first(timer):
    q = DelayQueue(timer=timer)
    q.put("a", 1)
    b = q.put("b", 2)
    q.shutdown()
    with pytest.raises(ShutDown):
        q.put("c", 1)
    with pytest.raises(queue.Empty):
        q.get_nowait()
    assert q.reset(b, 1)
    timer.advance(1)
    assert taken_until_shut(q) == ["a", "b"]
    with pytest.raises(ShutDown):
        q.get()
    q.shutdown()


def taken_until_shut(q):
    items = []
    while True:
        try:
            items.append(q.get_nowait())
        except ShutDown:
            return items


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


def test_shutdown_error_is_that_of_the_standard_library_if_it_has_one():
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


def test_infinite_timeout(timer):
    q = DelayQueue(timer=timer)
    q.put("a", 0)
    assert q.get(timeout=float("inf")) == "a"


def test_timeout_is_in_real_time(timer):
    q = DelayQueue(timer=timer)
    q.put("a", 3600)
    begin = time.monotonic()
    with pytest.raises(queue.Empty):
        q.get(timeout=0.05)
    assert time.monotonic() - begin >= 0.05


def test_timer_has_no_task_without_a_waiter(timer):
    q = DelayQueue(timer=timer)
    for i in range(1000):
        q.put(i, i)
    assert len(timer) == 0
    timer.advance(10_000)
    assert take_due(q) == [*range(1000)]


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


def test_clock_set_back_makes_nothing_early(hand_clock):
    with SystemTimer(clock=hand_clock, reaper=False) as timer:
        q = DelayQueue(timer=timer)
        q.put("a", 10)
        q.put("far", 10_000)
        hand_clock.ms += 10_000
        assert q.peek().item == "a"
        hand_clock.ms -= 100_000
        q.put("b", 1)
        assert take_due(q) == []
        hand_clock.ms += 1000
        assert take_due(q) == ["b"]
        hand_clock.ms += 99_000
        assert take_due(q) == ["a"] and len(q) == 1


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


def test_keys_are_created_by_put_only(timer):
    q = DelayQueue(timer=timer)
    key = q.put("a", 1.5)
    with pytest.raises(TypeError):
        type(key)()
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


def test_key_type_is_generic():
    assert repr(DelayKey[int]) == "hwheel.types.DelayKey[int]"


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
