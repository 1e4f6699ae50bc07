"""The behavior that Kafka's DelayedOperationTest checks, with the same numbers."""

import time

import pytest


@pytest.mark.parametrize("given_timer", [False, True])
def test_completed_operations_leave_the_timer_at_once_and_the_lists_at_a_check(
    make_purgatory, timer, flagged, given_timer
):
    purgatory = make_purgatory(timer) if given_timer else make_purgatory()
    first, second, third = flagged(), flagged(), flagged()
    purgatory.try_complete_else_watch(first, ["test1"])
    purgatory.try_complete_else_watch(second, ["test1", "test2"])
    purgatory.try_complete_else_watch(third, ["test1", "test2", "test3"])
    assert (purgatory.num_delayed, purgatory.watched, len(purgatory.timer)) == (3, 6, 3)

    second.completable = True
    assert second.safe_try_complete()
    assert (purgatory.num_delayed, len(purgatory.timer)) == (2, 2)
    third.completable = True
    assert third.safe_try_complete()
    assert (purgatory.num_delayed, len(purgatory.timer)) == (1, 1)
    assert purgatory.watched == 6

    left = []
    for key in ("test1", "test2", "test3"):
        assert purgatory.check_and_complete(key) == 0
        left.append(purgatory.watched)
    assert left == [4, 2, 1]


def test_cancel_for_key_returns_the_operations_and_does_not_complete_them(purgatory, flagged):
    first, second, third = flagged(), flagged(), flagged()
    purgatory.try_complete_else_watch(first, ["test1"])
    purgatory.try_complete_else_watch(second, ["test1"])
    purgatory.try_complete_else_watch(third, ["test2"])
    assert purgatory.cancel_for_key("test1") == [first, second]
    assert (purgatory.num_delayed, purgatory.watched, len(purgatory.timer)) == (1, 1, 1)
    assert not first.is_completed
    assert first.force_complete()
    assert purgatory.cancel_for_key("test1") == []
    assert purgatory.cancel_for_key("no such key") == []
    assert purgatory.num_delayed == 1


def test_operation_expires_at_its_deadline_and_a_later_one_stays(make_purgatory, flagged):
    purgatory = make_purgatory()
    start = time.monotonic()
    soon, late = flagged(20), flagged(200_000)
    assert not purgatory.try_complete_else_watch(soon, ["test1"])
    assert not purgatory.try_complete_else_watch(late, ["test2"])
    assert soon.done.wait(60)
    assert time.monotonic() - start >= 0.020
    with soon.lock:
        assert soon.calls == ["on_complete", "on_expiration"]
    assert soon.is_completed
    assert not late.is_completed
    assert purgatory.num_delayed == 1
    assert purgatory.stats().expired == purgatory.stats().completed == 1


def test_add_checks_the_condition_under_the_lock(purgatory, flagged):
    class Strict(flagged):
        def safe_try_complete(self):
            raise AssertionError("a check that does not wait could miss an event before the watch")

    assert not purgatory.try_complete_else_watch(Strict(), ["key"])


def test_safe_try_complete_or_else(flagged):
    done = []
    assert flagged().safe_try_complete_or_else(lambda: done.append("action")) is False
    assert done == ["action"]
    assert flagged(completable=True).safe_try_complete_or_else(lambda: done.append("never")) is True
    assert done == ["action"]
