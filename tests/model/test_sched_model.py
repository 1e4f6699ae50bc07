"""hwheel.sched behaves like the standard sched, for any sequence of operations on a virtual time."""

import sched
from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import hwheel.sched
from sampling import search_settings


class Side:
    """One scheduler, its clock, and its log."""

    def __init__(self, module, now):
        self.now = now
        self.scheduler = module.scheduler(lambda: self.now, self.wait)
        self.waits = []
        self.ran = []
        self.events = []

    def wait(self, delay):
        self.waits.append(delay)
        self.now += delay

    def enter(self, delay, priority, name, then):
        self.events.append(self.scheduler.enter(delay, priority, self.run_one, (name,), {"then": then}))

    def run_one(self, name, then):
        self.ran.append((name, self.now))
        if then == "enter":
            self.enter(1, 0, f"{name} again", None)
        elif then == "cancel":
            self.cancel(len(self.events) // 2)
        elif then == "fail":
            raise ArithmeticError(name)

    def cancel(self, index):
        try:
            self.scheduler.cancel(self.events[index])
        except ValueError:
            self.ran.append(("refused", index))

    def run(self, blocking):
        try:
            return self.scheduler.run(blocking)
        except ArithmeticError as error:
            return error.args


class SchedMachine(RuleBasedStateMachine):
    """Applies each operation to both schedulers, and compares them."""

    @initialize(now=st.sampled_from([0, 0.5, Fraction(1, 3), -7]))
    def begin(self, now):
        self.sides = [Side(module, now) for module in (sched, hwheel.sched)]
        self.names = 0

    @rule(
        delay=st.integers(-3, 20),
        priority=st.integers(-1, 2),
        then=st.sampled_from([None, None, None, "enter", "cancel", "fail"]),
        count=st.sampled_from([1, 1, 1, 1, 100]),
    )
    def enter(self, delay, priority, then, count):
        for _ in range(count):
            self.names += 1
            for side in self.sides:
                side.enter(delay, priority, self.names, then)

    @precondition(lambda self: self.sides[0].events)
    @rule(data=st.data())
    def cancel(self, data):
        index = data.draw(st.integers(0, len(self.sides[0].events) - 1))
        for side in self.sides:
            side.cancel(index)

    @precondition(lambda self: self.sides[0].events)
    @rule(start=st.integers(0, 200), step=st.integers(1, 3))
    def cancel_many(self, start, step):
        for side in self.sides:
            for index in range(start, len(side.events), step):
                side.cancel(index)

    @rule(by=st.integers(0, 30))
    def time_passes(self, by):
        for side in self.sides:
            side.now += by

    @rule(blocking=st.booleans())
    def run(self, blocking):
        answers = [side.run(blocking) for side in self.sides]
        assert answers[0] == answers[1]

    @invariant()
    def both_are_alike(self):
        one, other = self.sides
        assert one.ran == other.ran
        assert one.waits == other.waits
        assert one.now == other.now
        assert [event[:3] for event in one.scheduler.queue] == [event[:3] for event in other.scheduler.queue]
        assert one.scheduler.empty() == other.scheduler.empty()
        assert len(other.scheduler._keys) <= 2 * len(other.events) + 100


TestSched = SchedMachine.TestCase
TestSched.settings = search_settings(400, stateful_step_count=40)
