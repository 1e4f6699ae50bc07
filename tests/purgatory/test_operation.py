"""A single operation completes once, under its lock, even if its methods raise."""

import threading

import pytest

from hwheel import ManualTimer, SystemTimer
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from threads import call_in_thread


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
def test_check_during_a_held_lock_is_made_at_the_release(purgatory, flagged, release_by):
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


def test_deferred_check_is_made_although_the_running_check_fails(purgatory, flagged, errors):
    """The lock holder raises its own error, and must still make the check that another thread left to it."""

    class Fails(flagged):
        failed = False

        def try_complete(self):
            if not self.failed:
                self.failed = True
                self.completable = True
                call_in_thread(lambda: purgatory.check_and_complete("key"))
                raise ZeroDivisionError
            return super().try_complete()

    operation = Fails()
    operation.failed = True
    purgatory.try_complete_else_watch(operation, ["key"])
    operation.failed = False
    with pytest.raises(ZeroDivisionError):
        operation.safe_try_complete()
    assert operation.calls == ["on_complete"]
    assert errors == []


def test_error_of_a_deferred_check_is_reported_and_not_raised_in_the_lock_holder(purgatory, flagged, errors):
    class Fails(flagged):
        def try_complete(self):
            if self.completable:
                raise ZeroDivisionError
            return False

    operation = Fails()
    purgatory.try_complete_else_watch(operation, ["key"])
    with operation.lock:
        operation.completable = True
        call_in_thread(lambda: purgatory.check_and_complete("key"))
        assert errors == []
    assert [(source, type(error)) for source, error in errors] == [(operation, ZeroDivisionError)]
    operation.completable = False


def test_deferred_check_of_an_unwatched_operation_is_made(flagged):
    operation = flagged()
    with operation.lock:
        operation.completable = True
        call_in_thread(operation.safe_try_complete)
        assert not operation.is_completed
    assert operation.calls == ["on_complete"]


def test_lock_is_reentrant_and_a_context_manager(flagged):
    operation = flagged()
    with operation.lock, operation.lock:
        assert operation.lock.acquire(blocking=False)
        operation.lock.release()
        assert call_in_thread(lambda: operation.lock.acquire(timeout=0.01)) is False
    assert not operation.lock._is_owned()


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


class Failing(DelayedOperation):
    def __init__(self, where, delay_ms=100):
        super().__init__(delay_ms)
        self.where = where
        self.calls = []

    def call(self, name):
        self.calls.append(name)
        if name == self.where:
            raise ZeroDivisionError(name)

    def try_complete(self):
        self.call("try_complete")
        return self.force_complete()

    def on_complete(self):
        self.call("on_complete")

    def on_expiration(self):
        self.call("on_expiration")


def test_error_in_on_complete_is_raised_in_the_completer_and_frees_the_lock():
    operation = Failing("on_complete")
    with pytest.raises(ZeroDivisionError):
        operation.force_complete()
    assert operation.is_completed
    assert operation.force_complete() is False
    assert call_in_thread(lambda: operation.lock.acquire(blocking=False)) is True


def test_error_in_try_complete_frees_the_lock_and_completes_nothing():
    operation = Failing("try_complete")
    for check in (operation.safe_try_complete, lambda: operation.safe_try_complete_or_else(print)):
        with pytest.raises(ZeroDivisionError):
            check()
        assert not operation.is_completed
        assert not operation.lock._is_owned()


@pytest.mark.parametrize("where", ["on_complete", "on_expiration"])
def test_error_at_the_timeout_is_reported_and_on_expiration_still_runs(purgatory, timer, errors, where):
    class Waiting(Failing):
        def try_complete(self):
            return False

    operation = Waiting(where)
    purgatory.try_complete_else_watch(operation, ["key"])
    timer.advance(1)
    assert operation.calls == ["on_complete", "on_expiration"]
    assert [(source, type(error)) for source, error in errors] == [(operation, ZeroDivisionError)]
    assert purgatory.stats()[1:4] == (0, 1, 1)


def test_error_at_the_timeout_goes_to_excepthook_without_on_error(monkeypatch, flagged):
    reported = []
    seen = threading.Event()

    def hook(args):
        reported.append(args.exc_type)
        seen.set()

    class Broken(flagged):
        def on_complete(self):
            raise ZeroDivisionError

    monkeypatch.setattr(threading, "excepthook", hook)
    with DelayedOperationPurgatory("broken") as purgatory:
        purgatory.try_complete_else_watch(Broken(1), ["key"])
        assert seen.wait(60)
    assert reported == [ZeroDivisionError]


def test_errors_of_a_check_are_reported_and_other_operations_are_checked(purgatory, errors, flagged):
    class FailsToCheck(flagged):
        def try_complete(self):
            if self.completable:
                raise ZeroDivisionError
            return False

    class FailsToComplete(flagged):
        def on_complete(self):
            raise ZeroDivisionError

    operations = [FailsToCheck(), FailsToComplete(), flagged()]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["key", "other"])
    for operation in operations:
        operation.completable = True
    assert purgatory.check_and_complete("key") == 2
    assert [operation.is_completed for operation in operations] == [False, True, True]
    assert [(source, type(error)) for source, error in errors] == [
        (operations[0], ZeroDivisionError),
        (operations[1], ZeroDivisionError),
    ]
    assert purgatory.num_delayed == 1
    operations[0].completable = False
    assert purgatory.check_and_complete("other") == 0
    assert purgatory.watched == 2


def test_keyboard_interrupt_is_not_swallowed(purgatory, flagged):
    class Interrupted(flagged):
        def try_complete(self):
            if self.completable:
                raise KeyboardInterrupt
            return False

    operation = Interrupted()
    purgatory.try_complete_else_watch(operation, ["key"])
    operation.completable = True
    with pytest.raises(KeyboardInterrupt):
        purgatory.check_and_complete("key")
    assert not operation.lock._is_owned()


@pytest.mark.parametrize("make_timer", [ManualTimer, lambda: SystemTimer(reaper=False, executor="inline")])
def test_operation_is_a_timer_task(make_timer, flagged):
    with make_timer() as timer:
        operation = timer.add(flagged(0))
        timer.advance(0) if isinstance(timer, ManualTimer) else timer.advance_clock(0)
        assert operation.calls == ["on_complete", "on_expiration"]
