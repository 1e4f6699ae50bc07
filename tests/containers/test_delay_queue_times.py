"""Every way in which an item's time may be passed, moved or reached, whatever the queue has been asked before.

These are the cases in which a queue on a wheel may go wrong: an entry that is moved while its slot is the current one,
that is added before the one that the alarm is set for, that is beyond the wheel.
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
def test_what_is_due_when_it_is_put_comes_at_once_or_with_the_next_ms(timer, q, delay):
    keys = [q.put(i, delay) for i in range(3)]
    timer.advance(0.001)
    assert take_due(q) == [0, 1, 2] and not any(key.pending for key in keys)


@pytest.mark.parametrize(
    "delay_ms", [1, 2, 63, 64, 65, 4095, 4096, 4097, 2**18 - 1, 2**18, 2**24 + 1, 2**36, 2**42 + 7]
)
def test_around_the_edge_of_each_level_an_item_comes_at_its_ms(timer, q, delay_ms):
    for start in range(3):
        q.put("a", delay_ms / 1000)
        q.put("b", (delay_ms + 1) / 1000)
        timer.advance((delay_ms - 1) / 1000)
        assert take_due(q) == []
        timer.advance(0.001)
        assert take_due(q) == ["a"], start
        timer.advance(0.001)
        assert take_due(q) == ["b"]


def test_after_the_clock_was_set_back_an_item_still_comes_at_its_ms(hand_clock):
    """A bucket of the second level has 64 ms, and all of that level 4096."""
    chance = seeded_random(64)
    with SystemTimer(clock=hand_clock, executor="inline", reaper=False) as timer:
        for number in range(300):
            q = DelayQueue(timer=timer)
            hand_clock.ms = begin_ms = chance.randrange(10**7, 10**8)
            due_ms = begin_ms + chance.randrange(64, 4096)
            q.put("a", (due_ms - begin_ms) / 1000)
            if number % 2:
                hand_clock.ms = due_ms - due_ms % 64 - 4096 + chance.randrange(64)  # just out of its reach
            else:
                hand_clock.ms -= chance.randrange(1, 64**3)
            q.put("b", 0.001)
            hand_clock.ms += 1
            assert take_due(q) == ["b"]
            hand_clock.ms = due_ms - 1
            assert take_due(q) == []
            hand_clock.ms += 1
            assert take_due(q) == ["a"]


def test_a_slot_that_was_emptied_in_the_turn_before_is_of_this_turn(timer, q):
    q.remove(q.put("removed", 0.05))
    timer.advance(0.07)
    q.put("kept", 0.044)  # 64 ms after the other
    with pytest.raises(Empty):
        q.get_nowait()
    timer.advance(0.043)
    assert take_due(q) == []
    timer.advance(0.001)
    assert take_due(q) == ["kept"]


@pytest.mark.parametrize("delay_ms", [63, 64, 65, 4096])
def test_remove_at_the_edge_of_a_level_before_and_after_it_has_been_looked_at(timer, q, delay_ms):
    for look in [False, True]:
        keys = [q.put(i, (delay_ms + i) / 1000) for i in range(3)]
        timer.advance(delay_ms / 1000)
        if look:
            assert q.peek() is keys[0]
        assert [q.remove(key) for key in keys] == [0, 1, 2]
        timer.advance(1)
        assert take_due(q) == [] and len(q) == 0


def test_what_is_put_before_the_first_after_a_look_comes_first(timer, q):
    q.put("far", 0.2)
    assert take_due(q) == []
    timer.advance(0.08)
    q.put("near", 0.05)
    assert take_due(q) == [] and q.peek().item == "near"
    timer.advance(0.05)
    assert take_due(q) == ["near"]
    timer.advance(0.07)
    assert take_due(q) == ["far"]


def test_what_is_put_in_the_past_after_a_look_comes_before_what_is_not_due(timer, q):
    q.put("later", 0.2)
    assert take_due(q) == []
    timer.advance(0.08)
    q.put("past", -0.1)
    assert take_due(q) == ["past"]
    timer.advance(0.12)
    assert take_due(q) == ["later"]


def test_what_is_put_after_everything_came_comes_too(timer, q):
    for delay in [0.2, 0.1, 0.3]:
        q.put(delay, delay)
    timer.advance(0.1)
    for expected in [0.1, 0.2, 0.3]:
        assert take_due(q) == [expected]
        q.put("again", 0)
        assert take_due(q) == ["again"]
        timer.advance(0.1)


def test_an_item_is_reset_again_and_again_and_comes_once(timer, q):
    key = q.put("a", 0.005)
    for _ in range(200):
        timer.advance(0.004)
        assert q.reset(key, 0.005) and take_due(q) == []
    timer.advance(0.005)
    assert take_due(q) == ["a"] and q.reset(key, 1) is False


def test_two_are_reset_in_turn_and_keep_their_new_order(timer, q):
    one, two = q.put("one", 0.2), q.put("two", 0.25)
    q.reset(one, 0.3)
    q.reset(two, 0.35)
    q.reset(one, 0.4)
    timer.advance(0.39)
    assert take_due(q) == ["two"]
    timer.advance(0.01)
    assert take_due(q) == ["one"]


@pytest.mark.parametrize("which", [0, 1])
def test_reset_to_an_earlier_time_makes_it_the_first(timer, q, which):
    keys = [q.put("one", 0.2), q.put("two", 0.3)]
    assert take_due(q) == []
    q.reset(keys[which], 0.1)
    assert q.peek() is keys[which]
    timer.advance(0.1)
    assert take_due(q) == [["one", "two"][which]]
    timer.advance(0.2)
    assert take_due(q) == [["two", "one"][which]]


def test_reset_of_the_first_to_a_later_time_lets_the_second_come(timer, q):
    one, two = q.put("one", 0.2), q.put("two", 0.3)
    q.reset(one, 0.4)
    assert q.peek() is two
    timer.advance(0.3)
    assert take_due(q) == ["two"]
    timer.advance(0.1)
    assert take_due(q) == ["one"]


@pytest.mark.parametrize("again", [0.2, 3600, 1e7])
def test_reset_of_what_was_put_in_as_due_takes_it_back(timer, q, again):
    key = q.put("a", -0.1)
    q.put("b", 0)
    assert q.reset(key, again) and take_due(q) == ["b"]
    timer.advance(again - 0.001)
    assert take_due(q) == []
    timer.advance(0.001)
    assert take_due(q) == ["a"]


@pytest.mark.parametrize("earlier", [True, False])
def test_reset_within_a_coarse_slot_that_has_begun(timer, q, earlier):
    """It stands in a slot of 64 ms, whose time has come; the way down is still before it."""
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


def test_a_due_item_is_removed_before_anybody_takes_it(timer, q):
    key = q.put("a", 0.01)
    q.put("b", 0.01)
    timer.advance(10)
    assert q.remove(key) == "a" and take_due(q) == ["b"]


def test_peek_goes_from_key_to_key_and_takes_nothing(timer, q):
    keys = [q.put(i, delay) for i, delay in enumerate([0.005, 0.005, 0.01, 500])]
    for key in keys:
        assert q.peek() is key and q.peek() is key and key.pending
        timer.advance(max(0, key.deadline - timer.time()))
        assert q.peek() is key
        q.get()
    assert q.peek() is None


def test_a_key_of_an_item_that_is_gone_never_means_another(timer, q):
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


def test_a_queue_that_was_full_and_is_empty_holds_no_more_memory_than_its_wheel(timer, q):
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
