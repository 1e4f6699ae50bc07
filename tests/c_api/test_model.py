"""The wheel of the C API against a heap, for random operations, also in callbacks."""

import heapq

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from sampling import search_settings

delays = st.integers(0, 60) | st.integers(0, 5000) | st.sampled_from([64, 4096, 10**7, 10**12])
numbers = st.integers(0, 20)
# An operation of a test or of a callback: (kind, number of an entry, delay).
actions = st.tuples(st.sampled_from(["add", "move", "cancel"]), numbers, delays)


class Model:
    """A heap of (tick, order, number). Cancelled and moved entries stay in it and are ignored.

    An entry whose tick is not after `clock` when it is added is late, and the next advance calls it.
    """

    def __init__(self, tick, now):
        self.tick, self.now = tick, now
        self.clock = now // tick
        self.sequence = 0
        self.heap = []
        self.late = []  # (order, number)
        self.live = {}  # number -> order
        self.actions = {}
        self.called = []

    def place(self, number, deadline):
        self.sequence += 1
        self.live[number] = self.sequence
        tick = -(-deadline // self.tick)
        if tick <= self.clock:
            self.late.append((self.sequence, number))
        else:
            heapq.heappush(self.heap, (tick, self.sequence, number))

    def do(self, kind, number, delay):
        if kind == "cancel":
            self.live.pop(number, None)
        elif (kind == "add") == (number not in self.live):
            self.place(number, self.now + delay)

    def call(self, order, number):
        if self.live.get(number) == order:
            del self.live[number]
            self.called.append(number)
            if number in self.actions:
                self.do(*self.actions[number])

    def advance(self, now):
        self.now = now
        late, self.late = self.late, []
        for order, number in late:
            self.call(order, number)
        while self.heap and self.heap[0][0] * self.tick <= now:
            self.clock, order, number = heapq.heappop(self.heap)
            self.call(order, number)
        self.clock = now // self.tick

    def in_order(self):
        """Return the pending numbers in the order in which clear() removes them."""
        waiting = [one for one in self.late if self.live.get(one[1]) == one[0]]
        waiting += [(order, number) for _, order, number in sorted(self.heap) if self.live.get(number) == order]
        return [number for _, number in waiting]


def machine_of(wheels):
    class OpenWheelMachine(RuleBasedStateMachine):
        @initialize(tick=st.sampled_from([1, 1, 7]), size=st.sampled_from([2, 4, 20, 0]), now=st.integers(0, 10**6))
        def begin(self, tick, size, now):
            self.wheel = wheels.Wheel(tick, size, now)
            self.wheel.on_call = self.on_call
            self.model = Model(tick, now)

        def on_call(self, number):
            if number in self.model.actions:
                self.do(*self.model.actions[number])

        def do(self, kind, number, delay):
            if kind == "cancel":
                self.wheel.cancel(number)
            else:
                getattr(self.wheel, kind)(number, self.wheel.now() + delay)

        @rule(action=actions)
        def act(self, action):
            self.model.do(*action)
            self.do(*action)

        @rule(number=numbers, action=actions)
        def set_action_of_callback(self, number, action):
            self.model.actions[number] = action

        @rule(delay=delays)
        def advance(self, delay):
            before = len(self.model.called)
            self.model.advance(self.model.now + delay)
            assert self.wheel.advance(self.model.now) == len(self.model.called) - before

        @rule(delay=delays, limit=st.integers(1, 9))
        def advance_with_a_limit(self, delay, limit):
            """Callbacks have no actions, so that the order is the same."""
            self.model.actions.clear()
            self.model.advance(self.model.now + delay)
            while True:
                assert self.wheel.advance(self.model.now, limit) <= limit
                assert self.wheel.check() is None
                if self.wheel.next() > self.model.now:
                    break

        @rule()
        def clear(self):
            self.model.actions.clear()
            self.model.called += self.model.in_order()
            assert self.wheel.clear() == len(self.model.live)
            self.model.live.clear()
            self.model.late.clear()
            self.model.heap.clear()

        @invariant()
        def wheel_agrees_with_model(self):
            if not hasattr(self, "wheel"):
                return
            assert self.wheel.called == self.model.called
            assert len(self.wheel) == len(self.model.live)
            assert self.wheel.check() is None
            ticks = [tick for tick, order, number in self.model.heap if self.model.live.get(number) == order]
            first = min(ticks, default=None)
            if self.model.in_order() == []:
                assert self.wheel.next() == wheels.NEVER
            elif first is not None:
                assert self.wheel.next() <= first * self.model.tick

    return OpenWheelMachine


def test_wheel_agrees_with_a_heap(wheels):
    run_state_machine_as_test(machine_of(wheels), settings=search_settings(150, stateful_step_count=40))
