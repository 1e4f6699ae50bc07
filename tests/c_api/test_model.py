"""The wheel of the C API against a heap, for any sequence of operations, also from inside of callbacks."""

import heapq

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from sampling import search_settings

delays = st.integers(0, 60) | st.integers(0, 5000) | st.sampled_from([64, 4096, 10**7, 10**12])
numbers = st.integers(0, 20)
# What the callback of an entry does, and with which other: (what, number, delay).
deeds = st.tuples(st.sampled_from(["add", "move", "cancel"]), numbers, delays)


class Model:
    """A heap of (tick, turn, number); what was cancelled or moved stays in it, and is not looked at. `clock` is where
    the wheel's stands: what is not after it when it is added is late, and called by the next advance."""

    def __init__(self, tick, now):
        self.tick, self.now = tick, now
        self.clock = now // tick
        self.turns = 0
        self.heap = []
        self.late = []  # (turn, number)
        self.live = {}  # number -> turn
        self.deeds = {}
        self.called = []

    def place(self, number, deadline):
        self.turns += 1
        self.live[number] = self.turns
        tick = -(-deadline // self.tick)
        if tick <= self.clock:
            self.late.append((self.turns, number))
        else:
            heapq.heappush(self.heap, (tick, self.turns, number))

    def do(self, what, number, delay):
        if what == "cancel":
            self.live.pop(number, None)
        elif (what == "add") == (number not in self.live):
            self.place(number, self.now + delay)

    def call(self, turn, number):
        if self.live.get(number) == turn:
            del self.live[number]
            self.called.append(number)
            if number in self.deeds:
                self.do(*self.deeds[number])

    def advance(self, now):
        self.now = now
        late, self.late = self.late, []
        for turn, number in late:
            self.call(turn, number)
        while self.heap and self.heap[0][0] * self.tick <= now:
            self.clock, turn, number = heapq.heappop(self.heap)
            self.call(turn, number)
        self.clock = now // self.tick

    def in_order(self):
        """What is pending, as clear() takes it out."""
        waiting = [one for one in self.late if self.live.get(one[1]) == one[0]]
        waiting += [(turn, number) for _, turn, number in sorted(self.heap) if self.live.get(number) == turn]
        return [number for _, number in waiting]


def machine_of(wheels):
    class OpenWheelMachine(RuleBasedStateMachine):
        @initialize(tick=st.sampled_from([1, 1, 7]), size=st.sampled_from([2, 4, 20, 0]), now=st.integers(0, 10**6))
        def begin(self, tick, size, now):
            self.wheel = wheels.Wheel(tick, size, now)
            self.wheel.on_call = self.on_call
            self.model = Model(tick, now)

        def on_call(self, number):
            if number in self.model.deeds:
                self.do(*self.model.deeds[number])

        def do(self, what, number, delay):
            if what == "cancel":
                self.wheel.cancel(number)
            else:
                getattr(self.wheel, what)(number, self.wheel.now() + delay)

        @rule(deed=deeds)
        def act(self, deed):
            self.model.do(*deed)
            self.do(*deed)

        @rule(number=numbers, deed=deeds)
        def have_it_act_when_it_is_called(self, number, deed):
            self.model.deeds[number] = deed

        @rule(delay=delays)
        def advance(self, delay):
            before = len(self.model.called)
            self.model.advance(self.model.now + delay)
            assert self.wheel.advance(self.model.now) == len(self.model.called) - before

        @rule(delay=delays, limit=st.integers(1, 9))
        def advance_a_bit_at_a_time(self, delay, limit):
            """Nobody acts meanwhile, so that the order is the same."""
            self.model.deeds.clear()
            self.model.advance(self.model.now + delay)
            while True:
                assert self.wheel.advance(self.model.now, limit) <= limit
                assert self.wheel.check() is None
                if self.wheel.next() > self.model.now:
                    break

        @rule()
        def clear(self):
            self.model.deeds.clear()
            self.model.called += self.model.in_order()
            assert self.wheel.clear() == len(self.model.live)
            self.model.live.clear()
            self.model.late.clear()
            self.model.heap.clear()

        @invariant()
        def they_agree(self):
            if not hasattr(self, "wheel"):
                return
            assert self.wheel.called == self.model.called
            assert len(self.wheel) == len(self.model.live)
            assert self.wheel.check() is None
            ticks = [tick for tick, turn, number in self.model.heap if self.model.live.get(number) == turn]
            first = min(ticks, default=None)
            if self.model.in_order() == []:
                assert self.wheel.next() == wheels.NEVER
            elif first is not None:
                assert self.wheel.next() <= first * self.model.tick

    return OpenWheelMachine


def test_the_wheel_does_what_a_heap_does(wheels):
    run_state_machine_as_test(machine_of(wheels), settings=search_settings(150, stateful_step_count=40))
