"""Threads that add, check, complete, and expire operations concurrently."""

import itertools
import threading
import time

import pytest

from hwheel import SystemTimer
from sampling import seeded_random
from threads import call_in_thread


@pytest.mark.parametrize("reach", ["check", "force", "check in try_complete()"])
def test_operations_that_check_or_complete_each_other_do_not_deadlock(make_purgatory, run_threads, flagged, reach):
    """Each operation checks or completes the other one while both hold their locks."""
    purgatory = make_purgatory()
    both_hold_their_locks = threading.Barrier(2)

    class Crossing(flagged):
        def cross(self):
            both_hold_their_locks.wait(60)
            if reach == "force":
                assert self.other.force_complete() is False
            else:
                self.other.completable = True
                purgatory.check_and_complete(self.other)

        def look(self):
            self.cross()
            return super().try_complete()

        def on_complete(self):
            if reach != "check in try_complete()":
                self.cross()
            super().on_complete()

    for _ in range(20):
        first, second = Crossing(), Crossing()
        first.other, second.other = second, first
        for operation in (first, second):
            purgatory.try_complete_else_watch(operation, [operation])
            if reach == "check in try_complete()":
                operation.at_look[3] = operation.look
            operation.completable = True
        run_threads([lambda: purgatory.check_and_complete(first), lambda: purgatory.check_and_complete(second)])
        assert first.calls == second.calls == ["on_complete"]
        first.at_look, second.at_look = {}, {}  # cycles


@pytest.mark.parametrize("look", [1, 2])
def test_event_right_after_a_check_by_an_add_is_not_missed(purgatory, flagged, look):
    operation = flagged()

    def event():
        operation.completable = True
        assert call_in_thread(lambda: purgatory.check_and_complete("key")) == 0

    operation.at_look[look] = event
    assert purgatory.try_complete_else_watch(operation, ["key", "other"]) is True
    assert operation.calls == ["on_complete"]
    assert (purgatory.watched, purgatory.num_delayed, purgatory.stats().completed) == (0, 0, 1)


class InterposedKey:
    """A key that calls action() once, when its operation is added to its watch list."""

    def __init__(self, operation, action):
        self.operation, self.action = operation, action

    def __hash__(self):
        if self.operation.looks and self.action is not None:
            action, self.action = self.action, None
            action(self.operation)
        return 1


@pytest.fixture
def add_with_interposed(purgatory, flagged):
    """Return a function that adds an operation with three keys. After the first list it calls action(operation)."""

    def add(action):
        key = InterposedKey(flagged(), action)
        assert purgatory.try_complete_else_watch(key.operation, ["before", key, "after"]) in (True, False)
        assert key.action is None
        return key.operation

    return add


@pytest.mark.parametrize("thread", ["same", "another"])
def test_operation_completed_during_its_add_is_in_no_list(purgatory, add_with_interposed, thread):
    def complete(operation):
        if thread == "same":
            operation.force_complete()
        else:
            operation.completable = True
            call_in_thread(lambda: purgatory.check_and_complete("before"))

    operation = add_with_interposed(complete)
    assert operation.calls == ["on_complete"]
    assert (purgatory.watched, purgatory.num_delayed, len(purgatory.timer)) == (0, 0, 0)


def test_operation_returned_by_close_during_its_add_is_not_watched(purgatory, add_with_interposed):
    returned = []
    operation = add_with_interposed(lambda _: call_in_thread(lambda: returned.extend(purgatory.close())))
    assert returned == [operation]
    assert operation.calls == []
    assert (purgatory.watched, purgatory.num_delayed, len(purgatory.timer)) == (0, 0, 0)


def test_cancel_for_key_during_an_add(purgatory, add_with_interposed):
    returned = []
    operation = add_with_interposed(lambda _: returned.extend(purgatory.cancel_for_key("before")))
    assert returned == [operation]
    assert not operation.is_completed
    assert (purgatory.watched, purgatory.num_delayed, len(purgatory.timer)) == (2, 0, 0)


def test_random_operations_complete_once_and_counters_are_exact(make_purgatory, run_threads, flagged, many_switches):
    with SystemTimer("races") as timer:
        purgatory = make_purgatory(timer, purge_interval=50)
        keys = range(20)
        shared = [None] * 200
        all_operations = []

        def play(seed):
            dice = seeded_random(seed)
            for _ in range(2000):
                action = dice.random()
                if action < 0.5:
                    operation = flagged(dice.choice([0, 1, 5, 100_000]), completable=dice.random() < 0.1)
                    all_operations.append(operation)
                    purgatory.try_complete_else_watch(operation, dice.sample(keys, dice.randint(1, 4)))
                    shared[dice.randrange(len(shared))] = operation
                elif action < 0.8:
                    operation = dice.choice(shared)
                    if operation is not None:
                        operation.completable = True
                    purgatory.check_and_complete(dice.choice(keys))
                elif action < 0.97:
                    operation = dice.choice(shared)
                    if operation is not None:
                        operation.force_complete()
                else:
                    for operation in purgatory.cancel_for_key(dice.choice(keys)):
                        operation.force_complete()

        run_threads([lambda seed=seed: play(seed) for seed in range(4)])
        for operation in all_operations:
            operation.completable = True
        for key in keys:
            purgatory.check_and_complete(key)
        timer.close(run_pending=True)  # runs queued timeouts
        assert all(operation.is_completed for operation in all_operations)
        assert all(operation.calls.count("on_complete") == 1 for operation in all_operations)
        expired = sum("on_expiration" in operation.calls for operation in all_operations)
        assert 0 < expired < len(all_operations)
        purgatory.purge()
        assert purgatory.stats()[:4] == (0, 0, len(all_operations), expired)


def test_condition_set_in_any_thread_is_seen(make_purgatory, run_threads, many_switches, flagged):
    """No operation has a timeout, which could hide a lost completion."""
    purgatory = make_purgatory()
    count = 3000
    conditions = [False] * count
    operations = []

    class Waits(flagged):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def try_complete(self):
            return conditions[self.number] and self.force_complete()

    operations = [Waits(number) for number in range(count)]
    keys = [[number, ("twin", number), number % 7] for number in range(count)]
    turn = itertools.count()

    def add():
        while (number := next(turn)) < count:
            purgatory.try_complete_else_watch(operations[number], keys[number])

    def make_true(which):
        for number in range(count):
            if number % 2 == which:
                conditions[number] = True
                purgatory.check_and_complete(keys[number][number // 2 % 3])

    run_threads([add, add, lambda: make_true(0), lambda: make_true(1)])
    assert [operation.number for operation in operations if not operation.is_completed] == []
    assert purgatory.num_delayed == 0


def test_add_raises_no_error_if_the_operation_completes_at_its_start(purgatory, flagged, run_threads):
    operations = [flagged() for _ in range(10_000)]
    begun, errors = [], []

    class Key:
        def __init__(self, operation):
            self.operation = operation

        def __hash__(self):  # an add calls this before its first check
            if begun[-1:] != [self.operation]:
                begun.append(self.operation)
            return 7

    def add():
        for operation in operations:
            try:
                purgatory.try_complete_else_watch(operation, [Key(operation)])
            except ValueError as error:
                errors.append(error)

    def complete():
        for number, operation in enumerate(operations):
            while len(begun) <= number:
                time.sleep(0)
            operation.force_complete()

    run_threads([add, complete])
    assert errors == [] and purgatory.num_delayed == 0
    assert all(operation.calls == ["on_complete"] for operation in operations)
