"""Arguments, adds, close, owned timers, forks, and docstrings of DelayedOperationPurgatory."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hwheel import ManualTimer, SystemTimer, TimerClosed, TimerFull, TimerTask
from hwheel.purgatory import DelayedOperationPurgatory
from programs import output_of


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": None}, TypeError),
        ({"timer": "timer"}, TypeError),
        ({"purge_interval": -1}, ValueError),
        ({"purge_interval": True}, TypeError),
        ({"purge_interval": 1.5}, TypeError),
    ],
)
def test_constructor_refuses_bad_arguments(arguments, error):
    with pytest.raises(error):
        DelayedOperationPurgatory(**{"name": "bad", **arguments})


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        *[(no_keys, ValueError) for no_keys in ([], (), iter([]))],
        *[(bad, TypeError) for bad in ("key", b"key", None, 5, [[]], ["good", {}])],
    ],
)
def test_bad_keys_are_refused(purgatory, flagged, keys, error):
    operation = flagged(completable=True)
    with pytest.raises(error):
        purgatory.try_complete_else_watch(operation, keys)
    assert operation.calls == []
    assert purgatory.stats() == (0, 0, 0, 0, 0)
    operation.completable = False
    assert not purgatory.try_complete_else_watch(operation, ["good"])


def test_keys_compare_by_value_and_duplicates_count_once(purgatory, flagged):
    operation = flagged()
    purgatory.try_complete_else_watch(operation, (key for key in [("topic", 1), ("topic", 1.0), "b", "b"]))
    assert purgatory.watched == 2
    operation.completable = True
    assert purgatory.check_and_complete(tuple(["topic", 1])) == 1
    for key in ([], {}):
        with pytest.raises(TypeError):
            purgatory.check_and_complete(key)
        with pytest.raises(TypeError):
            purgatory.cancel_for_key(key)


def test_non_operations_and_used_operations_are_refused(purgatory, timer, flagged):
    with pytest.raises(TypeError):
        purgatory.try_complete_else_watch(TimerTask(5), ["key"])
    twice = flagged()
    purgatory.try_complete_else_watch(twice, ["key"])
    with pytest.raises(ValueError, match="already in a purgatory"):
        purgatory.try_complete_else_watch(twice, ["other"])
    cancelled = flagged()
    cancelled.cancel()
    with pytest.raises(ValueError, match="was cancelled"):
        purgatory.try_complete_else_watch(cancelled, ["other"])
    elsewhere = timer.add(flagged())
    with pytest.raises(ValueError, match="pending already"):
        purgatory.try_complete_else_watch(elsewhere, ["other"])
    assert (purgatory.watched, purgatory.num_delayed) == (1, 1)
    completed = flagged(completable=True)
    completed.force_complete()
    assert purgatory.try_complete_else_watch(completed, ["other"]) is False
    assert (purgatory.watched, purgatory.stats().completed) == (1, 0)


def test_operation_refused_by_the_timer_is_not_watched(flagged):
    with ManualTimer(max_pending=1) as timer, DelayedOperationPurgatory("full", timer) as purgatory:
        purgatory.try_complete_else_watch(flagged(), ["key"])
        refused = flagged()
        with pytest.raises(TimerFull):
            purgatory.try_complete_else_watch(refused, ["key", "other"])
        assert (purgatory.watched, purgatory.num_delayed) == (1, 1)
        assert not refused.is_completed
    with ManualTimer(start_ms=1) as timer, DelayedOperationPurgatory("end of time", timer) as purgatory:
        with pytest.raises(OverflowError):
            purgatory.try_complete_else_watch(flagged(2**63 - 1), ["key", "other"])
        assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def fail():
    raise ZeroDivisionError


@pytest.mark.parametrize("look", [1, 2])
def test_error_of_try_complete_is_raised_and_the_operation_is_not_watched(purgatory, errors, flagged, look):
    operation = flagged()
    operation.at_look[look] = fail
    with pytest.raises(ZeroDivisionError):
        purgatory.try_complete_else_watch(operation, ["key", "other"])
    assert purgatory.stats() == (0, 0, 0, 0, 0)
    assert errors == []


@pytest.mark.parametrize("look", [1, 2])
@pytest.mark.parametrize("error", [ZeroDivisionError, TimerClosed, KeyboardInterrupt])
def test_error_of_on_complete_is_raised_and_the_operation_is_counted(purgatory, errors, flagged, look, error):
    operation = flagged(fails_in="on_complete", error=error)
    operation.at_look[look] = operation.force_complete
    with pytest.raises(error):
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert purgatory.stats() == (0, 0, 1, 0, 0)
    assert errors == []


@pytest.mark.parametrize("look", [1, 2])
def test_operation_that_completes_but_returns_false_is_not_watched(purgatory, timer, flagged, look):
    operation = flagged()
    operation.at_look[look] = lambda: not operation.force_complete()
    assert purgatory.try_complete_else_watch(operation, ["key", "other"]) is False
    assert operation.calls == ["on_complete"]
    assert (purgatory.watched, purgatory.num_delayed, len(timer)) == (0, 0, 0)


def test_cancelled_timeout_leaves_the_operation_watched(purgatory, timer, flagged):
    operation = flagged(10)
    purgatory.try_complete_else_watch(operation, ["key"])
    assert operation.cancel() is True
    assert operation.cancel() is False
    assert (purgatory.num_delayed, purgatory.watched) == (0, 1)
    timer.advance(0.1)
    operation.completable = True
    assert purgatory.check_and_complete("key") == 1
    assert purgatory.stats()[1:4] == (0, 1, 0)


def test_close_returns_operations_by_deadline_and_leaves_the_timer_open(timer, flagged):
    purgatory = DelayedOperationPurgatory("closing", timer)
    other = timer.call_later(5, int)
    late, soon, done, cancelled = (flagged(delay_ms) for delay_ms in (200, 100, 50, 70))
    for operation in (late, soon, done):
        purgatory.try_complete_else_watch(operation, ["a", "b"])
    purgatory.try_complete_else_watch(cancelled, ["c", "d"])
    purgatory.cancel_for_key("c")
    done.force_complete()
    assert not purgatory.closed
    assert purgatory.close() == [cancelled, soon, late]
    assert purgatory.closed
    assert purgatory.close() == []
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)
    assert not timer.closed
    assert other.pending
    assert len(timer) == 1
    timer.advance(1)
    assert soon.calls == []
    assert purgatory.check_and_complete("a") == 0
    assert soon.force_complete()
    with pytest.raises(TimerClosed):
        purgatory.try_complete_else_watch(flagged(completable=True), ["a"])
    assert repr(purgatory) == "<DelayedOperationPurgatory 'closing', closed>"


def test_close_does_not_return_an_operation_whose_timeout_is_queued(make_timer, make_purgatory, flagged, eventually):
    busy = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        try:
            executor.submit(busy.wait, 60)
            purgatory = make_purgatory(make_timer(executor=executor))
            operation = flagged(1)
            assert not purgatory.try_complete_else_watch(operation, ["key"])
            eventually(lambda: operation.expired)
            assert not operation.is_completed and purgatory.close() == []
        finally:
            busy.set()
        assert operation.done.wait(60)
    assert operation.calls == ["on_complete", "on_expiration"]


def test_close_during_cancel_for_key_returns_each_operation_once(purgatory, flagged):
    returned = []

    class Closes(flagged):
        def cancel(self):
            if not purgatory.closed:
                returned.extend(purgatory.close())
            return super().cancel()

    operation = Closes()
    assert not purgatory.try_complete_else_watch(operation, ["key"])
    returned.extend(purgatory.cancel_for_key("key"))
    assert returned == [operation]


def test_owned_timer_has_the_name_and_is_closed_with_the_purgatory(flagged):
    with DelayedOperationPurgatory("own") as purgatory:
        purgatory.try_complete_else_watch(flagged(), ["key"])
        names = {thread.name for thread in threading.enumerate()}
        assert {"reaper-own", "executor-own"} <= names
        assert repr(purgatory) == "<DelayedOperationPurgatory 'own', 1 waiting>"
        timer = purgatory.timer
    assert timer.closed
    assert not {"reaper-own", "executor-own"} & {thread.name for thread in threading.enumerate()}


def test_close_inside_an_operation(flagged):
    purgatory = DelayedOperationPurgatory("inside")
    closed = threading.Event()

    class Closing(flagged):
        def on_expiration(self):
            assert purgatory.close() == [other]
            closed.set()

    other = flagged()
    purgatory.try_complete_else_watch(other, ["key"])
    purgatory.try_complete_else_watch(Closing(1), ["key"])
    assert closed.wait(60)


def test_each_add_during_close_is_returned_or_refused(flagged, run_threads, many_switches):
    for _ in range(30):
        purgatory = DelayedOperationPurgatory("race", timer := ManualTimer())
        accepted, refused, returned = [], [], []

        def add():
            for _ in range(100):
                operation = flagged()
                try:
                    purgatory.try_complete_else_watch(operation, ["a", "b"])
                    accepted.append(operation)
                except TimerClosed:
                    refused.append(operation)

        run_threads([add, add, lambda: returned.extend(purgatory.close())])
        assert {*accepted} == {*returned}, "close() must return exactly the accepted operations"
        assert not {*refused} & {*returned}
        assert (purgatory.watched, purgatory.num_delayed, len(timer)) == (0, 0, 0)


def test_purgatory_without_a_reaper_starts_no_thread(flagged):
    before = threading.active_count()
    with DelayedOperationPurgatory("by hand", reaper=False) as purgatory:
        operation = flagged(1)
        purgatory.try_complete_else_watch(operation, ["key"])
        assert purgatory.advance_clock(60_000) is True
        assert operation.calls == ["on_complete", "on_expiration"]
        assert purgatory.advance_clock(0) is False
        assert threading.active_count() == before


def test_advance_clock_needs_a_timer_without_a_reaper(purgatory):
    with pytest.raises(RuntimeError, match=r"ManualTimer; call its advance\(\)"):
        purgatory.advance_clock(1)
    with DelayedOperationPurgatory("reaper") as other, pytest.raises(RuntimeError):
        other.advance_clock(1)


def test_idle_purgatory_causes_no_wake_ups(eventually, flagged):
    with SystemTimer("idle") as timer, DelayedOperationPurgatory("idle", timer, purge_interval=0) as purgatory:
        purgatory.try_complete_else_watch(flagged(1), ["key"])
        eventually(lambda: purgatory.stats().expired == 1)
        wakeups = timer.stats().wakeups
        assert not threading.Event().wait(0.5)
        assert timer.stats().wakeups <= wakeups + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_has_an_empty_working_purgatory():
    assert output_of(
        "-c",
        """
import os, threading
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
import warnings
warnings.simplefilter("ignore")
class Op(DelayedOperation):
    def try_complete(self): return False
    def on_complete(self):
        print("completed in", "child" if os.getpid() != parent else "parent", flush=True)
        completed.set()
completed = threading.Event()
parent = os.getpid()
with DelayedOperationPurgatory("fork") as purgatory:
    op = Op(100_000)
    purgatory.try_complete_else_watch(op, ["key"])
    held, go_on = threading.Event(), threading.Event()
    class Blocking:     # compares, under the lock of the lists
        def __hash__(self): return hash("key")
        def __eq__(self, other): held.set(); go_on.wait(); return False
    thread = threading.Thread(target=purgatory.check_and_complete, args=(Blocking(),)); thread.start(); held.wait()
    child = os.fork()
    if child == 0:
        print(*purgatory.stats(), flush=True)
        purgatory.try_complete_else_watch(Op(1), ["key"])
        completed.wait()
        print(*purgatory.stats()[1:4], flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    go_on.set(); thread.join()
    print(*purgatory.stats())
    op.force_complete()
""",
    ).splitlines() == ["0 0 0 0 0", "completed in child", "0 1 1", "1 1 0 0 0", "completed in parent"]


def test_interpreter_exits_with_waiting_operations():
    assert (
        output_of(
            "-c",
            """
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
class Op(DelayedOperation):
    def try_complete(self): return False
    def on_complete(self): print("never")
purgatory = DelayedOperationPurgatory("exit")
for i in range(10_000): purgatory.try_complete_else_watch(Op(100_000), [i, "all"])
print(purgatory.watched)
""",
        )
        == "20000\n"
    )
