"""An operation by itself: completed once, under its lock, whatever its own methods do."""

import threading

import pytest

from hwheel import ManualTimer, SystemTimer
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory


def test_it_completes_once(flagged):
    operation = flagged()
    assert not operation.is_completed
    assert operation.force_complete() is True
    assert operation.is_completed
    assert operation.force_complete() is False
    operation.completable = True
    assert operation.safe_try_complete() is False
    operation.run()
    assert operation.calls == ["on_complete"]


def test_one_of_many_threads_completes_it(flagged, run_threads, many_switches):
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


def test_force_complete_says_so_only_when_on_complete_has_run(flagged):
    operation = flagged()
    answers = []
    with operation.lock:
        thread = threading.Thread(target=lambda: answers.append((operation.force_complete(), operation.calls[:])))
        thread.start()
        assert not operation.done.wait(0.05)
    thread.join(60)
    assert answers == [(True, ["on_complete"])]


@pytest.mark.parametrize("let_go", ["with", "release", "raise"])
def test_a_check_that_finds_the_lock_taken_does_not_wait_and_is_made_up_for(purgatory, flagged, let_go):
    operation = flagged()
    purgatory.try_complete_else_watch(operation, ["key"])
    answers = []
    lock = operation.lock
    lock.acquire()
    operation.completable = True
    thread = threading.Thread(target=lambda: answers.append(purgatory.check_and_complete("key")))
    thread.start()
    thread.join(60)
    assert answers == [0]
    assert not operation.is_completed
    if let_go == "release":
        lock.release()
    elif let_go == "with":
        with operation.lock:
            lock.release()
    else:
        with pytest.raises(ZeroDivisionError), operation.lock:
            lock.release()
            raise ZeroDivisionError
    assert operation.calls == ["on_complete"]


def test_a_check_is_made_up_for_when_the_one_under_way_fails(purgatory, flagged, errors):
    """Its holder's error is its holder's; the check that was left to it must be made all the same."""

    class Fails(flagged):
        failed = False

        def try_complete(self):
            if not self.failed:
                self.failed = True
                thread = threading.Thread(target=purgatory.check_and_complete, args=("key",))
                self.completable = True
                thread.start()
                thread.join(60)
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


def test_an_error_of_a_check_that_was_made_up_for_is_reported_and_not_of_the_locks_holder(purgatory, flagged, errors):
    class Fails(flagged):
        def try_complete(self):
            if self.completable:
                raise ZeroDivisionError
            return False

    operation = Fails()
    purgatory.try_complete_else_watch(operation, ["key"])
    with operation.lock:
        operation.completable = True
        thread = threading.Thread(target=purgatory.check_and_complete, args=("key",))
        thread.start()
        thread.join(60)
        assert errors == []
    assert [(source, type(error)) for source, error in errors] == [(operation, ZeroDivisionError)]
    operation.completable = False


def test_a_check_of_an_operation_that_no_purgatory_watches_is_made_up_for_too(flagged):
    operation = flagged()
    with operation.lock:
        operation.completable = True
        thread = threading.Thread(target=operation.safe_try_complete)
        thread.start()
        thread.join(60)
        assert not operation.is_completed
    assert operation.calls == ["on_complete"]


def test_the_lock_is_reentrant_and_a_context_manager(flagged):
    operation = flagged()
    with operation.lock, operation.lock:
        assert operation.lock.acquire(blocking=False)
        operation.lock.release()
        taken = []
        thread = threading.Thread(target=lambda: taken.append(operation.lock.acquire(timeout=0.01)))
        thread.start()
        thread.join(60)
        assert taken == [False]
    assert not operation.lock._is_owned()


def test_methods_that_were_not_overridden_say_so():
    operation = DelayedOperation(10)
    with pytest.raises(NotImplementedError, match="DelayedOperation must override try_complete"):
        operation.safe_try_complete()
    with pytest.raises(NotImplementedError, match="override on_complete"):
        operation.force_complete()
    assert operation.is_completed


@pytest.mark.parametrize("delay_ms", [None, "1", float("nan"), float("inf"), True])
def test_a_delay_that_is_none_is_refused(flagged, delay_ms):
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


def test_an_error_in_on_complete_is_the_completers_and_leaves_the_operation_completed_and_the_lock_free():
    operation = Failing("on_complete")
    with pytest.raises(ZeroDivisionError):
        operation.force_complete()
    assert operation.is_completed
    assert operation.force_complete() is False
    free = []
    thread = threading.Thread(target=lambda: free.append(operation.lock.acquire(blocking=False)))
    thread.start()
    thread.join(60)
    assert free == [True]


def test_an_error_in_try_complete_frees_the_lock_and_completes_nothing():
    operation = Failing("try_complete")
    for check in (operation.safe_try_complete, lambda: operation.safe_try_complete_or_else(print)):
        with pytest.raises(ZeroDivisionError):
            check()
        assert not operation.is_completed
        assert not operation.lock._is_owned()


@pytest.mark.parametrize("where", ["on_complete", "on_expiration"])
def test_an_error_at_the_timeout_goes_to_on_error_and_on_expiration_is_called_all_the_same(
    purgatory, timer, errors, where
):
    class Waiting(Failing):
        def try_complete(self):
            return False

    operation = Waiting(where)
    purgatory.try_complete_else_watch(operation, ["key"])
    timer.advance(1)
    assert operation.calls == ["on_complete", "on_expiration"]
    assert [(source, type(error)) for source, error in errors] == [(operation, ZeroDivisionError)]
    assert purgatory.stats()[1:4] == (0, 1, 1)


def test_an_error_at_the_timeout_goes_to_the_excepthook_if_there_is_no_on_error(monkeypatch, flagged):
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


def test_errors_of_a_check_are_reported_and_the_other_operations_are_checked(purgatory, errors, flagged):
    class FailsToLook(flagged):
        def try_complete(self):
            if self.completable:
                raise ZeroDivisionError
            return False

    class FailsToComplete(flagged):
        def on_complete(self):
            raise ZeroDivisionError

    operations = [FailsToLook(), FailsToComplete(), flagged()]
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
def test_an_operation_is_a_timer_task_too(make_timer, flagged):
    with make_timer() as timer:
        operation = timer.add(flagged(0))
        timer.advance(0) if isinstance(timer, ManualTimer) else timer.advance_clock(0)
        assert operation.calls == ["on_complete", "on_expiration"]
