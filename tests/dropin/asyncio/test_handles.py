"""Handles of a loop on the wheel behave like asyncio.TimerHandle, over asyncio and uvloop."""

import asyncio
import contextvars
import gc
import math
import operator
import weakref

import pytest

VARIABLE = contextvars.ContextVar("variable", default="unset")


def nothing(*args):
    pass


@pytest.mark.parametrize("delay", [0.07, 1, 3600, 1e9, math.inf])
def test_when_returns_the_deadline_before_and_after_cancel(loop, delay):
    before = loop.time()
    handle = loop.call_later(delay, nothing)
    assert before + delay <= handle.when() <= loop.time() + delay
    at = loop.call_at(handle.when(), nothing)
    assert at.when() == handle.when()
    for each in (handle, at):
        each.cancel()
        assert before + delay <= each.when()


def test_cancelled_handle_does_not_run(loop, idle):
    ran = []
    handle = loop.call_later(0.001, ran.append, 1)
    loop.call_later(0.002, ran.append, 2)
    assert not handle.cancelled()
    assert handle.cancel() is None
    assert handle.cancel() is None
    assert handle.cancelled()
    idle(0.03)
    assert ran == [2]


def test_handle_after_its_call(loop, idle):
    handle = loop.call_later(0.005, nothing)
    when = handle.when()
    idle(0.03)
    assert handle.when() == when and not handle.cancelled()
    handle.cancel()
    assert handle.cancelled()


class Something:
    pass


def test_cancel_releases_callback_and_arguments(loop):
    something = Something()
    gone = weakref.ref(something)
    handle = loop.call_later(10, nothing, something)
    gc.disable()
    try:
        del something
        assert gone() is not None
        handle.cancel()
        assert gone() is None
    finally:
        gc.enable()


def test_arguments_are_released_after_the_call(loop, idle):
    something = Something()
    gone = weakref.ref(something)
    handle = loop.call_later(0.001, nothing, something)
    del something
    idle(0.02)
    assert gone() is None
    assert not handle.cancelled()


def test_cancelled_handle_is_freed_with_its_last_reference(loop):
    handle = loop.call_later(10, nothing)
    gone = weakref.ref(handle)
    handle.cancel()
    del handle
    assert gone() is None


def test_close_releases_pending_arguments(loop_class):
    loop = loop_class()
    something = Something()
    gone = weakref.ref(something)
    loop.call_later(10, nothing, something)
    loop.call_later(1e6, nothing, something)
    del something
    loop.close()
    assert gone() is None


def test_comparison_and_hash_match_asyncio(loop):
    now = loop.time()
    handles = [loop.call_at(now + delay, nothing, argument) for delay, argument in ((10, 1), (10, 1), (20, 1), (10, 2))]
    stock = [asyncio.TimerHandle(handle.when(), nothing, handle._args, loop) for handle in handles]
    for left in (handles, stock):
        for right in (handles, stock):
            for i, a in enumerate(left):
                for k, b in enumerate(right):
                    x, y = stock[i], stock[k]
                    for compare in (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge):
                        assert compare(a, b) == compare(x, y)
                    assert (hash(a) == hash(b)) == (hash(x) == hash(y))
    handles[0].cancel()
    assert handles[0] != handles[1]
    assert handles[0] != "something else"
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        with pytest.raises(TypeError):
            compare(handles[0], 1)
    for handle in handles:
        handle.cancel()


def test_repr_matches_asyncio(loop):
    handle = loop.call_later(10, nothing, 1)
    stock = asyncio.TimerHandle(handle.when(), nothing, (1,), loop)
    assert repr(handle) == repr(stock)
    handle.cancel()
    assert repr(handle) == f"<TimerHandle cancelled when={handle.when()}>"


def test_callback_runs_in_the_context_of_the_call(loop, idle):
    seen = []

    def look():
        seen.append(VARIABLE.get())
        VARIABLE.set("changed by the callback")

    context = contextvars.copy_context()
    context.run(VARIABLE.set, "inside")
    context.run(loop.call_later, 0.001, look)
    loop.call_later(0.002, look)
    handle = loop.call_later(0.003, look, context=context)
    assert handle.get_context() is context
    idle(0.03)
    assert seen == ["inside", "unset", "inside"]
    assert VARIABLE.get() == "unset"
    assert context[VARIABLE] == "changed by the callback"


def test_exception_goes_to_the_exception_handler(loop, idle):
    reported = []
    loop.set_exception_handler(lambda loop, context: reported.append(context))
    handle = loop.call_later(0.001, math.sqrt, -1)
    ran = []
    loop.call_later(0.001, ran.append, "next")
    idle(0.02)
    (context,) = reported
    assert set(context) == {"message", "exception", "handle"}
    assert context["message"].startswith("Exception in callback sqrt(")
    assert isinstance(context["exception"], ValueError)
    assert context["handle"] is handle
    assert ran == ["next"]


def test_reschedule_to_a_later_deadline(loop, idle):
    ran = []
    handle = loop.call_later(0.01, ran.append, "moved")
    loop.call_later(0.02, ran.append, "stayed")
    assert handle.reschedule(0.04)
    idle(0.1)
    assert ran == ["stayed", "moved"]
    assert not handle.reschedule(1)


def test_reschedule_to_an_earlier_deadline(loop, idle):
    ran = []
    handles = [loop.call_later(10_000, ran.append, delay) for delay in (0.01, 0, -5)]
    for handle, delay in zip(handles, (0.01, 0, -5), strict=True):
        assert handle.reschedule(delay)
    idle(0.05)
    assert ran == [0, -5, 0.01]


def test_reschedule_refuses_a_bad_delay(loop):
    handle = loop.call_later(10, nothing)
    when = handle.when()
    for wrong, error in ((None, TypeError), ("1", TypeError), (math.nan, ValueError)):
        with pytest.raises(error):
            handle.reschedule(wrong)
    assert handle.when() == when
    handle.cancel()
    assert not handle.reschedule(1)


def test_handle_cannot_be_instantiated(loop):
    handle = loop.call_later(10, nothing)
    kind = type(handle)
    handle.cancel()
    with pytest.raises(TypeError):
        kind()
    empty = kind.__new__(kind)
    empty.cancel()
    assert empty.reschedule(1) is False
    assert "not set up" in repr(empty)


def test_rescheduled_handle_keeps_its_hash(loop):
    handle, twin = (loop.call_at(1e9, print, 1) for _ in range(2))
    assert handle == twin and hash(handle) == hash(twin)
    handles, names = {handle}, {handle: "idle"}
    assert handle.reschedule(50)
    assert handle in handles
    assert names.pop(handle) == "idle"
    handles.discard(handle)
    assert not handles
    handle.cancel()
    twin.cancel()


def test_handle_has_its_deadline_and_remaining_time(loop):
    handle = loop.call_later(100, nothing)
    assert handle.deadline == handle.when()
    assert 99 < handle.remaining() <= 100
    handle.cancel()
    assert handle.remaining() == 0.0 and handle.deadline == handle.when()
