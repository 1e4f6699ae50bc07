"""Exact deadlines of a DelayQueue in the cases that are difficult for a wheel.

An entry is moved while its slot is the current one, is added before the first entry, or is beyond the wheel.
"""

import tracemalloc
from queue import Empty

import pytest

from containers import take_due
from hwheel import DelayQueue, SystemTimer
from sampling import seeded_random


@pytest.fixture
def q(timer, request):
    yield DelayQueue(timer=timer)
    request.node.funcargs.pop("q", None)


@pytest.mark.parametrize("delay", [0, -1, -1e6, 1e-9])
def test_items_without_a_delay_expire_within_a_millisecond(timer, q, delay):
    keys = [q.put(i, delay) for i in range(3)]
    timer.advance(0.001)
    assert take_due(q) == [0, 1, 2] and not any(key.pending for key in keys)


@pytest.mark.parametrize(
    "delay_ms", [1, 2, 63, 64, 65, 4095, 4096, 4097, 2**18 - 1, 2**18, 2**24 + 1, 2**36, 2**42 + 7]
)
def test_deadlines_at_the_edges_of_levels_are_exact(timer, q, delay_ms):
    for start in range(3):
        q.put("a", delay_ms / 1000)
        q.put("b", (delay_ms + 1) / 1000)
        timer.advance((delay_ms - 1) / 1000)
        assert take_due(q) == []
        timer.advance(0.001)
        assert take_due(q) == ["a"], start
        timer.advance(0.001)
        assert take_due(q) == ["b"]


def test_deadlines_are_exact_after_the_clock_was_set_back(hand_clock):
    """A bucket of the second level spans 64 ms, and the whole level spans 4096 ms."""
    chance = seeded_random(64)
    with SystemTimer(clock=hand_clock, executor="inline", reaper=False) as timer:
        for number in range(300):
            q = DelayQueue(timer=timer)
            hand_clock.ms = begin_ms = chance.randrange(10**7, 10**8)
            due_ms = begin_ms + chance.randrange(64, 4096)
            q.put("a", (due_ms - begin_ms) / 1000)
            if number % 2:
                hand_clock.ms = due_ms - due_ms % 64 - 4096 + chance.randrange(64)  # just before the reach of the level
            else:
                hand_clock.ms -= chance.randrange(1, 64**3)
            q.put("b", 0.001)
            hand_clock.ms += 1
            assert take_due(q) == ["b"]
            hand_clock.ms = due_ms - 1
            assert take_due(q) == []
            hand_clock.ms += 1
            assert take_due(q) == ["a"]


def test_slot_emptied_in_the_previous_turn_is_reused(timer, q):
    q.remove(q.put("removed", 0.05))
    timer.advance(0.07)
    q.put("kept", 0.044)  # one turn of 64 ms after the other item
    with pytest.raises(Empty):
        q.get_nowait()
    timer.advance(0.043)
    assert take_due(q) == []
    timer.advance(0.001)
    assert take_due(q) == ["kept"]


@pytest.mark.parametrize("delay_ms", [63, 64, 65, 4096])
def test_remove_at_the_edges_of_levels(timer, q, delay_ms):
    for look in [False, True]:
        keys = [q.put(i, (delay_ms + i) / 1000) for i in range(3)]
        timer.advance(delay_ms / 1000)
        if look:
            assert q.peek() is keys[0]
        assert [q.remove(key) for key in keys] == [0, 1, 2]
        timer.advance(1)
        assert take_due(q) == [] and len(q) == 0


def test_item_put_before_the_first_one_expires_first(timer, q):
    q.put("far", 0.2)
    assert take_due(q) == []
    timer.advance(0.08)
    q.put("near", 0.05)
    assert take_due(q) == [] and q.peek().item == "near"
    timer.advance(0.05)
    assert take_due(q) == ["near"]
    timer.advance(0.07)
    assert take_due(q) == ["far"]


def test_item_put_in_the_past_precedes_pending_items(timer, q):
    q.put("later", 0.2)
    assert take_due(q) == []
    timer.advance(0.08)
    q.put("past", -0.1)
    assert take_due(q) == ["past"]
    timer.advance(0.12)
    assert take_due(q) == ["later"]


def test_item_put_into_an_emptied_queue(timer, q):
    for delay in [0.2, 0.1, 0.3]:
        q.put(delay, delay)
    timer.advance(0.1)
    for expected in [0.1, 0.2, 0.3]:
        assert take_due(q) == [expected]
        q.put("again", 0)
        assert take_due(q) == ["again"]
        timer.advance(0.1)


def test_item_reset_many_times_expires_once(timer, q):
    key = q.put("a", 0.005)
    for _ in range(200):
        timer.advance(0.004)
        assert q.reset(key, 0.005) and take_due(q) == []
    timer.advance(0.005)
    assert take_due(q) == ["a"] and q.reset(key, 1) is False


def test_items_reset_in_turn_have_their_new_order(timer, q):
    one, two = q.put("one", 0.2), q.put("two", 0.25)
    q.reset(one, 0.3)
    q.reset(two, 0.35)
    q.reset(one, 0.4)
    timer.advance(0.39)
    assert take_due(q) == ["two"]
    timer.advance(0.01)
    assert take_due(q) == ["one"]


@pytest.mark.parametrize("which", [0, 1])
def test_reset_makes_an_item_the_first(timer, q, which):
    keys = [q.put("one", 0.2), q.put("two", 0.3)]
    assert take_due(q) == []
    q.reset(keys[which], 0.1)
    assert q.peek() is keys[which]
    timer.advance(0.1)
    assert take_due(q) == [["one", "two"][which]]
    timer.advance(0.2)
    assert take_due(q) == [["two", "one"][which]]


def test_reset_makes_the_second_item_the_first(timer, q):
    one, two = q.put("one", 0.2), q.put("two", 0.3)
    q.reset(one, 0.4)
    assert q.peek() is two
    timer.advance(0.3)
    assert take_due(q) == ["two"]
    timer.advance(0.1)
    assert take_due(q) == ["one"]


@pytest.mark.parametrize("again", [0.2, 3600, 1e7])
def test_reset_postpones_an_item_put_without_a_delay(timer, q, again):
    key = q.put("a", -0.1)
    q.put("b", 0)
    assert q.reset(key, again) and take_due(q) == ["b"]
    timer.advance(again - 0.001)
    assert take_due(q) == []
    timer.advance(0.001)
    assert take_due(q) == ["a"]


@pytest.mark.parametrize("earlier", [True, False])
def test_reset_within_a_coarse_slot_that_has_begun(timer, q, earlier):
    """The item is in a slot of 64 ms that has begun, and has not been cascaded yet."""
    timer.advance(0.064)
    key = q.put("a", 0.15)
    other = q.put("b", 0.16)
    timer.advance(0.13)
    assert take_due(q) == []
    q.reset(key, 0.01 if earlier else 0.05)
    timer.advance(0.01)
    assert take_due(q) == (["a"] if earlier else [])
    timer.advance(0.02)
    assert take_due(q) == ["b"] and not other.pending
    timer.advance(0.02)
    assert take_due(q) == ([] if earlier else ["a"])


def test_key_of_a_removed_item_never_names_another(timer, q):
    old = [q.put(i, 1) for i in range(100)]
    q.drain()
    new = [q.put(i, 1) for i in range(100)]
    assert not {*map(id, old)} & {*map(id, new)}
    for key in old:
        assert q.reset(key, 100) is False
        with pytest.raises(KeyError):
            q.remove(key)
    timer.advance(1)
    assert take_due(q) == [*range(100)]


def test_emptied_queue_keeps_only_the_memory_of_its_wheel(timer, q):
    q.put(0, 0)
    q.get()
    tracemalloc.start()
    try:
        for _ in range(2):
            before = tracemalloc.get_traced_memory()[0]
            for i in range(30_000):
                q.put(None, i / 10)
            full = tracemalloc.get_traced_memory()[0]
            for _ in range(10_000):
                q.remove(q.peek())
            timer.advance(10_000)
            assert len(take_due(q)) == 20_000
            after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert full - before > 60 * 30_000 and after - before < 40_000
