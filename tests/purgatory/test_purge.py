"""Completed operations are released at once, and their entries leave the watch lists by a check or by the purge."""

import gc
import tracemalloc
import weakref

import pytest

from containers import HookedKey
from hwheel.purgatory import DelayedOperation
from sampling import EXHAUSTIVE

MANY = 1_000_000 if EXHAUSTIVE else 20_000


def complete(operations):
    for operation in operations:
        assert operation.force_complete()


def test_completion_that_exceeds_the_interval_purges(make_purgatory, timer, flagged):
    purgatory = make_purgatory(timer, purge_interval=10)
    operations = [flagged() for _ in range(15)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b", "c"])
    complete(operations[:10])
    assert (purgatory.watched, purgatory.stats().purged) == (45, 0)
    complete(operations[10:11])
    assert (purgatory.watched, purgatory.stats().purged) == (12, 33)
    assert purgatory.num_delayed == len(timer) == 4
    complete(operations[11:])
    assert purgatory.watched == 12
    assert purgatory.purge() == 12
    assert purgatory.stats() == (0, 0, 15, 0, 45)


def test_keys_of_empty_lists_are_dropped(make_purgatory, timer, flagged):
    purgatory = make_purgatory(timer, purge_interval=10)
    for number in range(1000):
        operation = flagged(completable=False)
        purgatory.try_complete_else_watch(operation, [("once", number), ("never", number)])
        operation.completable = True
        purgatory.check_and_complete(("once", number))
    assert purgatory._key_count() <= 11


@pytest.mark.parametrize("how", ["force", "check", "timeout", "cancel and force"])
def test_completed_operation_is_released_without_a_check_of_its_keys(purgatory, timer, flagged, how):
    gc.disable()
    try:
        operation = flagged(50)
        purgatory.try_complete_else_watch(operation, ["quiet", "silent", "checked"])
        operation.completable = True
        if how == "force":
            operation.force_complete()
        elif how == "check":
            purgatory.check_and_complete("checked")
        elif how == "timeout":
            timer.advance(0.05)
        else:
            purgatory.cancel_for_key("checked")[0].force_complete()
        assert operation.is_completed
        assert purgatory.watched >= 2
        gone = weakref.ref(operation)
        del operation
        assert gone() is None
    finally:
        gc.enable()


def test_memory_of_completed_operations_is_released(make_purgatory, timer):
    """Only one operation in a thousand stays, and fewer than purge_interval entries of completed operations."""
    purgatory = make_purgatory(timer)

    class Small(DelayedOperation):
        def __init__(self):
            super().__init__(3_600_000)
            self.completable = False
            self.payload = bytearray(100)

        def try_complete(self):
            return self.completable and self.force_complete()

        def on_complete(self):
            pass

    def one_round(number):
        waiting = [Small() for _ in range(number)]
        for i, operation in enumerate(waiting):
            purgatory.try_complete_else_watch(operation, [("one of", i % 97), ("one of", i % 89 + 100), i])
        assert purgatory.watched >= 3 * number
        for i, operation in enumerate(waiting):
            if i % 1000:
                operation.completable = True
                if i % 2:
                    operation.force_complete()
                else:
                    with operation.lock:
                        assert operation.try_complete()

    one_round(2000)  # warms up caches
    for key in range(2000):
        for operation in purgatory.cancel_for_key(key):
            operation.force_complete()
    purgatory.purge()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        one_round(MANY)
        gc.collect()
        after, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert purgatory.num_delayed == len(timer) == MANY // 1000
    assert purgatory.watched <= 3 * (MANY // 1000 + purgatory.purge_interval)
    allowed = 1_000 * (MANY // 1000 + purgatory.purge_interval)
    assert most - before > 10 * allowed, "the measurement does not include the operations"
    assert after - before < allowed


def fail():
    raise ZeroDivisionError


@pytest.fixture
def watch_then_break_comparisons(flagged, monkeypatch):
    """Return a function that watches two operations with different keys and then makes comparisons of keys fail."""

    def watch_both(purgatory):
        operations = [flagged(), flagged()]
        for number, operation in enumerate(operations):
            purgatory.try_complete_else_watch(operation, [HookedKey(number)])
        monkeypatch.setattr(HookedKey, "hook", staticmethod(fail))
        return operations

    return watch_both


def test_purge_raises_an_error_of_a_key_comparison_at_its_end(purgatory, watch_then_break_comparisons):
    complete(watch_then_break_comparisons(purgatory))
    with pytest.raises(ZeroDivisionError):
        purgatory.purge()
    assert purgatory.watched == 0 and purgatory.stats().purged == 2


def test_automatic_purge_reports_an_error_of_a_key_comparison(
    make_purgatory, timer, watch_then_break_comparisons, errors
):
    purgatory = make_purgatory(timer, purge_interval=0)
    operations = watch_then_break_comparisons(purgatory)
    complete(operations[1:])
    assert [(source, type(error)) for source, error in errors] == [(operations[1], ZeroDivisionError)]
    assert purgatory.watched == 1 and operations[1].is_completed


def test_watched_operation_cannot_be_initialized_or_watched_again(purgatory, make_purgatory, timer, flagged):
    operation = flagged()
    purgatory.try_complete_else_watch(operation, ["key"])
    with pytest.raises(ValueError, match="added or cancelled already"):
        operation.__init__(5)
    with pytest.raises(ValueError, match="already in a purgatory"):
        make_purgatory(timer).try_complete_else_watch(operation, ["key"])
    assert purgatory.watched == 1


def test_error_of_the_final_check_of_an_add_is_raised_after_completion(purgatory, flagged, monkeypatch):
    def look():
        monkeypatch.setattr(HookedKey, "hook", staticmethod(fail))
        return operation.force_complete()

    purgatory.try_complete_else_watch(flagged(), [HookedKey(1)])
    operation = flagged()
    operation.at_look[2] = look
    with pytest.raises(ZeroDivisionError):
        purgatory.try_complete_else_watch(operation, [HookedKey(2)])
    assert operation.is_completed and operation.calls == ["on_complete"]
    assert purgatory.watched == 1


def test_error_in_a_key_comparison_is_raised_and_leaves_nothing_watched(purgatory, flagged, monkeypatch):
    purgatory.try_complete_else_watch(flagged(), [HookedKey(1)])
    with monkeypatch.context() as patch:
        patch.setattr(HookedKey, "hook", staticmethod(fail))
        with pytest.raises(ZeroDivisionError):
            purgatory.try_complete_else_watch(flagged(), ["other", HookedKey(2)])
        with pytest.raises(ZeroDivisionError):
            purgatory.check_and_complete(HookedKey(2))
    assert (purgatory.watched, purgatory.num_delayed) == (1, 1)
    assert purgatory.try_complete_else_watch(flagged(), [HookedKey(2)]) is False
    assert purgatory.watched == 2
