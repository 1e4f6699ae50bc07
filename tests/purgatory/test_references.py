"""References that a purgatory keeps."""

import gc
import sys
import weakref

import pytest

from hwheel import ManualTimer
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory


def test_unwatched_operation_is_freed_with_its_last_reference(purgatory, flagged):
    operation = flagged()
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    for key in "a", "b":
        purgatory.cancel_for_key(key)
    gone = weakref.ref(operation)
    gc.disable()
    try:
        del operation
        assert gone() is None
    finally:
        gc.enable()


def test_the_collector_frees_an_unclosed_purgatory(flagged):
    """The purgatory is in a cycle with its own operation, whose timeout was cancelled."""
    with ManualTimer() as timer:
        purgatory = DelayedOperationPurgatory("garbage", timer)
        operation, other = flagged(), flagged()
        operation.purgatory = purgatory
        for one in operation, other:
            purgatory.try_complete_else_watch(one, ["a", "b", "c"])
            one.cancel()
        gone = [weakref.ref(thing) for thing in (purgatory, operation, other)]
        del purgatory, operation, one
        gc.collect()
        assert all(ref() is not None for ref in gone), "the other operation refers to the purgatory"
        del other
        gc.collect()
        assert [ref() for ref in gone] == [None, None, None]


def test_references_to_keys_and_operations_are_released(purgatory, timer, flagged):
    """Try each way in which operations leave the lists."""

    class Key:
        pass

    keys = [Key() for _ in range(12)]  # too many for the linear search
    before = [sys.getrefcount(key) for key in keys]
    for how in ("complete", "check", "expire", "cancel", "fail", "close"):
        operation = flagged(10, completable=False)
        gone = weakref.ref(operation)
        if how == "fail":
            with pytest.raises(TypeError):
                purgatory.try_complete_else_watch(operation, [*keys, []])
        else:
            purgatory.try_complete_else_watch(operation, keys + keys)
            assert purgatory.watched == len(keys)
        if how == "complete":
            operation.force_complete()
            purgatory.purge()
        elif how == "check":
            operation.completable = True
            for key in keys:
                purgatory.check_and_complete(key)
        elif how == "expire":
            timer.advance(0.01)
            purgatory.purge()
        elif how == "cancel":
            for key in keys:
                purgatory.cancel_for_key(key)
        elif how == "close":
            assert purgatory.close() == [operation]
        assert purgatory.watched == 0
        del operation
        purgatory.purge()
        key = None
        gc.collect()
        assert gone() is None, how
        assert [sys.getrefcount(key) for key in keys] == before, how


class Slotted(DelayedOperation):
    __slots__ = ("number",)


class Loose(DelayedOperation):
    pass


@pytest.mark.parametrize("kind", [Slotted, Loose])
def test_subclass_in_a_cycle_is_freed(kind):
    operation = kind(5)
    operation.number = [operation]
    gone = weakref.ref(operation)
    del operation
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other versions store attributes elsewhere")
def test_attributes_do_not_create_a_dict():
    """A dict would double the size of an operation with attributes."""
    operation = Loose(5)
    operation.number = "seven"
    found = gc.get_referents(operation)
    assert "seven" in found
    assert not any(isinstance(thing, dict) for thing in found)
