"""A single operation completes once, under its lock, even if its methods raise."""

import threading

import pytest

from hwheel import ManualTimer, SystemTimer
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from threads import call_in_thread


def fail():
    raise ZeroDivisionError


def test_operation_completes_once(flagged):
    operation = flagged()
    assert not operation.is_completed
    assert operation.force_complete() is True
    assert operation.is_completed
    assert operation.force_complete() is False
    operation.completable = True
    assert operation.safe_try_complete() is False
    operation.run()
    assert operation.calls == ["on_complete"]


def test_only_one_of_many_threads_completes_an_operation(flagged, run_threads, many_switches):
    for _ in range(50):
        operation = flagged(completable=True)
        answers = []
        run_threads(
            [lambda: answers.append(operation.force_complete())] * 3
            + [lambda: answers.append(operation.safe_try_complete())] * 3
            + [operation.run] * 2
        )
        assert operation.calls in (["on_complete"], ["on_complete", "on_expiration"])
        assert sum(answers) == (operation.calls == ["on_complete"])


def test_force_complete_returns_after_on_complete(flagged):
    operation = flagged()
    answers = []
    with operation.lock:
        thread = threading.Thread(target=lambda: answers.append((operation.force_complete(), operation.calls[:])))
        thread.start()
        assert not operation.done.wait(0.05)
    thread.join(60)
    assert answers == [(True, ["on_complete"])]


@pytest.mark.parametrize("release_by", ["with", "release", "raise"])
def test_check_while_the_lock_is_held_runs_at_its_release(purgatory, flagged, release_by):
    operation = flagged()
    purgatory.try_complete_else_watch(operation, ["key"])
    lock = operation.lock
    lock.acquire()
    operation.completable = True
    assert call_in_thread(lambda: purgatory.check_and_complete("key")) == 0
    assert not operation.is_completed
    if release_by == "release":
        lock.release()
    elif release_by == "with":
        with operation.lock:
            lock.release()
    else:
        with pytest.raises(ZeroDivisionError), operation.lock:
            lock.release()
            raise ZeroDivisionError
    assert operation.calls == ["on_complete"]


def test_deferred_check_runs_even_if_the_running_check_fails(purgatory, flagged, errors):
    """The lock holder raises its own error, and must still make the check that another thread left to it."""
    operation = flagged()
    purgatory.try_complete_else_watch(operation, ["key"])

    def look():
        operation.completable = True
        call_in_thread(lambda: purgatory.check_and_complete("key"))
        raise ZeroDivisionError

    operation.at_look[3] = look
    with pytest.raises(ZeroDivisionError):
        operation.safe_try_complete()
    assert operation.calls == ["on_complete"]
    assert errors == []


def test_error_of_a_deferred_check_is_reported_and_not_raised_in_the_lock_holder(purgatory, flagged, errors):
    operation = flagged()
    operation.at_look[3] = fail
    purgatory.try_complete_else_watch(operation, ["key"])
    with operation.lock:
        call_in_thread(lambda: purgatory.check_and_complete("key"))
        assert errors == []
    assert [(source, type(error)) for source, error in errors] == [(operation, ZeroDivisionError)]


def test_deferred_check_of_an_unwatched_operation_runs(flagged):
    operation = flagged()
    with operation.lock:
        operation.completable = True
        call_in_thread(operation.safe_try_complete)
        assert not operation.is_completed
    assert operation.calls == ["on_complete"]


def test_missing_override_raises_not_implemented_error():
    operation = DelayedOperation(10)
    with pytest.raises(NotImplementedError, match="DelayedOperation must override try_complete"):
        operation.safe_try_complete()
    with pytest.raises(NotImplementedError, match="override on_complete"):
        operation.force_complete()
    assert operation.is_completed


@pytest.mark.parametrize("delay_ms", [None, "1", float("nan"), float("inf"), True])
def test_bad_delay_is_refused(flagged, delay_ms):
    with pytest.raises((TypeError, ValueError)):
        flagged(delay_ms)


def test_error_in_on_complete_is_raised_in_the_completer_and_frees_the_lock(flagged):
    operation = flagged(fails_in="on_complete")
    with pytest.raises(ZeroDivisionError):
        operation.force_complete()
    assert operation.is_completed
    assert operation.force_complete() is False
    assert call_in_thread(lambda: operation.lock.acquire(blocking=False)) is True


def test_error_in_try_complete_frees_the_lock_and_completes_nothing(flagged):
    operation = flagged()
    operation.at_look = {1: fail, 2: fail}
    for check in (operation.safe_try_complete, lambda: operation.safe_try_complete_or_else(print)):
        with pytest.raises(ZeroDivisionError):
            check()
        assert not operation.is_completed
        assert not operation.lock._is_owned()


@pytest.mark.parametrize("where", ["on_complete", "on_expiration"])
def test_error_at_the_timeout_is_reported_and_on_expiration_still_runs(purgatory, timer, errors, flagged, where):
    operation = flagged(100, fails_in=where)
    purgatory.try_complete_else_watch(operation, ["key"])
    timer.advance(1)
    assert operation.calls == ["on_complete", "on_expiration"]
    assert [(source, type(error)) for source, error in errors] == [(operation, ZeroDivisionError)]
    assert purgatory.stats()[1:4] == (0, 1, 1)


def test_error_at_the_timeout_goes_to_excepthook_without_on_error(monkeypatch, flagged, eventually):
    reported = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_type))
    with DelayedOperationPurgatory("broken") as purgatory:
        purgatory.try_complete_else_watch(flagged(1, fails_in="on_complete"), ["key"])
        eventually(lambda: reported == [ZeroDivisionError])


def test_errors_of_a_check_are_reported_and_other_operations_are_checked(purgatory, errors, flagged):
    operations = [flagged(), flagged(fails_in="on_complete"), flagged()]
    operations[0].at_look[3] = fail
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["key", "other"])
        operation.completable = operation is not operations[0]
    assert purgatory.check_and_complete("key") == 2
    assert [operation.is_completed for operation in operations] == [False, True, True]
    assert [(source, type(error)) for source, error in errors] == [(one, ZeroDivisionError) for one in operations[:2]]
    assert purgatory.num_delayed == 1
    assert purgatory.check_and_complete("other") == 0
    assert purgatory.watched == 2


def test_keyboard_interrupt_is_not_swallowed(purgatory, flagged):
    def interrupt():
        raise KeyboardInterrupt

    operation = flagged()
    operation.at_look[3] = interrupt
    purgatory.try_complete_else_watch(operation, ["key"])
    with pytest.raises(KeyboardInterrupt):
        purgatory.check_and_complete("key")
    assert not operation.lock._is_owned()


@pytest.mark.parametrize("make_timer", [ManualTimer, lambda: SystemTimer(reaper=False, executor="inline")])
def test_operation_is_a_timer_task(make_timer, flagged):
    with make_timer() as timer:
        operation = timer.add(flagged(0))
        timer.advance(0) if isinstance(timer, ManualTimer) else timer.advance_clock(0)
        assert operation.calls == ["on_complete", "on_expiration"]
