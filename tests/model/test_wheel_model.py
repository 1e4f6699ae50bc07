"""TimingWheel compared with a heap of (tick, sequence number), for random sequences of operations.

The model has no levels and no buckets; snapshots are checked against the rule of placement.
"""

import heapq
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hwheel import TimerTask, TimingWheel
from invariants import check_invariants
from reach import LAST_MS, any_one, as_seconds_can_say, in_seconds, near, reaches, starts
from sampling import search_settings


class Pending(NamedTuple):
    tick: int  # tick of the finest level in which the task expires
    sequence: int
    task: TimerTask


class WheelMachine(RuleBasedStateMachine):
    """Add, cancel, reschedule and poll in any order."""

    @initialize(
        tick_ms=st.sampled_from([1, 1, 1, 2, 3, 10, 20, 1000, 86_400_000]),
        wheel_size=st.sampled_from([2, 3, 4, 5, 10, 20, 60, 256]),
        start_ms=starts,
    )
    def make(self, tick_ms, wheel_size, start_ms):
        self.tick_ms, self.wheel_size = tick_ms, wheel_size
        self.wheel = TimingWheel(tick_ms, wheel_size, start_ms)
        self.now_ms = start_ms  # the latest time of a poll
        self.clock_ms = start_ms - start_ms % tick_ms
        self.heap = []
        self.current = {}  # task -> its Pending; other entries of the heap are stale
        self.tasks = []
        self.added = self.expired = self.cancelled = self.sequence = 0

    def teardown(self):
        if not hasattr(self, "wheel"):
            return
        self.poll_at(LAST_MS)
        assert len(self.wheel) == 0
        assert self.wheel.next_expiration_ms is None
        assert self.added == self.expired + self.cancelled

    # --- the model ---------------------------------------------------------------------------------------------------

    def enter(self, task, expiration_ms):
        self.sequence += 1
        # An overdue task waits for the next poll in the current tick.
        pending = Pending(max(expiration_ms, self.clock_ms) // self.tick_ms, self.sequence, task)
        self.current[task] = pending
        heapq.heappush(self.heap, pending[:2] + (id(task), pending))

    def first(self):
        while self.heap and self.current.get(self.heap[0][3].task) is not self.heap[0][3]:
            heapq.heappop(self.heap)
        return self.heap[0][3] if self.heap else None

    def take_due(self, now_ms):
        due = []
        while (first := self.first()) is not None and first.tick * self.tick_ms <= now_ms:
            heapq.heappop(self.heap)
            del self.current[first.task]
            due.append(first.task)
        return due

    def time_in(self, reach):
        """Return a time after the wheel's clock, within 64 bits."""
        return min(self.clock_ms + reach.ms(self.tick_ms, self.wheel_size), LAST_MS)

    # --- operations --------------------------------------------------------------------------------------------------

    def add_at(self, expiration_ms):
        task = TimerTask(0)
        levels = self.wheel.snapshot().levels
        assert self.wheel.add(task, expiration_ms) == (expiration_ms >= self.clock_ms + self.tick_ms)
        self.added += 1
        self.tasks.append(task)
        assert task.deadline_ms == expiration_ms
        if task.expired:
            self.expired += 1
        else:
            self.enter(task, expiration_ms)
            self.check_placement(task, expiration_ms, levels)

    def check_placement(self, task, expiration_ms, levels_before):
        """Kafka's rule: the finest level whose interval reaches there; bucket virtual_id % wheel_size; at its end."""
        level, tick_ms, clock_ms = 1, self.tick_ms, self.clock_ms
        while expiration_ms >= clock_ms + tick_ms * self.wheel_size:
            tick_ms *= self.wheel_size
            clock_ms -= clock_ms % tick_ms
            level += 1
        virtual_id = expiration_ms // tick_ms
        levels = self.wheel.snapshot().levels
        assert len(levels) == max(level, len(levels_before)), "levels are created on demand"
        (bucket,) = [one for one in levels[level - 1].buckets if one.index == virtual_id % self.wheel_size]
        assert bucket.expiration_ms == virtual_id * tick_ms
        assert bucket.tasks[-1] is task

    @rule(reach=reaches)
    def add(self, reach):
        self.add_at(self.time_in(reach))

    @rule(reach=near, count=st.integers(2, 6))
    def add_several_for_one_time(self, reach, count):
        for _ in range(count):
            self.add_at(self.time_in(reach))

    @rule(before_ms=st.integers(0, 100))
    def add_expired(self, before_ms):
        self.add_at(self.clock_ms - before_ms)

    @precondition(lambda self: self.current)
    @rule(which=any_one, place=st.integers(0, 2**16))
    def add_to_a_tick_in_use(self, which, place):
        tick = list(self.current.values())[which % len(self.current)].tick
        self.add_at(min(tick * self.tick_ms + place % self.tick_ms, LAST_MS))

    @rule(time_ms=st.integers(LAST_MS - 1000, LAST_MS))
    def add_near_the_last_millisecond(self, time_ms):
        self.add_at(time_ms)

    @precondition(lambda self: self.tasks)
    @rule(which=any_one)
    def cancel(self, which):
        task = self.tasks[which % len(self.tasks)]
        was_pending = task in self.current
        assert task.cancel() == was_pending
        if was_pending:
            del self.current[task]
            self.cancelled += 1
            assert task.cancelled

    @precondition(lambda self: self.current)
    @rule(picks=st.lists(any_one, min_size=1, max_size=10))
    def cancel_several(self, picks):
        for which in picks:
            if self.current:
                task = list(self.current)[which % len(self.current)]
                assert task.cancel()
                del self.current[task]
                self.cancelled += 1

    @precondition(lambda self: self.tasks)
    @rule(which=any_one, reach=reaches)
    def reschedule(self, which, reach):
        task = self.tasks[which % len(self.tasks)]
        delay_ms = as_seconds_can_say(self.time_in(reach) - self.clock_ms)
        expiration_ms = self.clock_ms + delay_ms
        was_pending = task in self.current
        assert task.reschedule(in_seconds(delay_ms)) == was_pending
        if was_pending:
            self.enter(task, expiration_ms)
            assert task.deadline_ms == expiration_ms

    @precondition(lambda self: self.current)
    @rule(which=any_one, other=any_one)
    def reschedule_to_a_tick_in_use(self, which, other):
        task = list(self.current)[which % len(self.current)]
        tick = list(self.current.values())[other % len(self.current)].tick
        delay_ms = as_seconds_can_say(tick * self.tick_ms - self.clock_ms)
        expiration_ms = self.clock_ms + delay_ms
        assert task.reschedule(in_seconds(delay_ms))
        self.enter(task, expiration_ms)

    def poll_at(self, now_ms):
        next_ms = self.wheel.next_expiration_ms
        expected = self.take_due(now_ms)
        due = self.wheel.poll(now_ms)
        assert due == expected, "poll() returns the expired tasks once and in order"
        self.expired += len(due)
        assert all(task.expired for task in due)
        clock_ms = self.wheel.current_time_ms
        if next_ms is None or next_ms > now_ms:
            assert clock_ms == self.clock_ms, "a poll without expired tasks moves no clock"
        assert self.clock_ms <= clock_ms <= max(now_ms, self.clock_ms)
        if due and max(now_ms, self.clock_ms) == now_ms:
            assert clock_ms >= due[-1].deadline_ms // self.tick_ms * self.tick_ms
        self.clock_ms = clock_ms
        self.now_ms = max(self.now_ms, now_ms)

    @rule(reach=near)
    def poll_soon(self, reach):
        self.poll_at(min(max(0, self.now_ms + reach.ms(self.tick_ms, self.wheel_size)), LAST_MS))

    @rule(reach=reaches)
    def poll_after_a_jump(self, reach):
        self.poll_at(min(max(0, self.now_ms + reach.ms(self.tick_ms, self.wheel_size)), LAST_MS))

    @precondition(lambda self: self.wheel.next_expiration_ms is not None)
    @rule(early_ms=st.sampled_from([1, 0, 0]))
    def poll_for_the_next_bucket(self, early_ms):
        self.poll_at(max(0, self.wheel.next_expiration_ms - early_ms))

    @rule(back_ms=st.integers(0, 10**6))
    def poll_back_in_time(self, back_ms):
        self.poll_at(max(0, self.clock_ms - back_ms))

    @rule(reach=reaches)
    def advance_the_clock_without_passing_tasks(self, reach):
        time_ms = self.time_in(reach)
        next_ms = self.wheel.next_expiration_ms
        if next_ms is not None:
            time_ms = min(time_ms, next_ms - 1)
        if time_ms < 0:
            return
        self.wheel.advance_clock(time_ms)
        self.clock_ms = max(self.clock_ms, time_ms - time_ms % self.tick_ms)

    # --- invariants --------------------------------------------------------------------------------------------------

    @invariant()
    def counters_are_exact(self):
        assert len(self.wheel) == len(self.current)
        assert self.added == self.expired + self.cancelled + len(self.current)
        for task in self.tasks:
            assert task.pending == (task in self.current)
            assert task.pending + task.expired + task.cancelled == 1

    @invariant()
    def next_expiration_is_never_late(self):
        first, next_ms = self.first(), self.wheel.next_expiration_ms
        assert (next_ms is None) == (first is None)
        if first is not None:
            assert next_ms <= first.tick * self.tick_ms

    @invariant()
    def clocks_are_multiples_of_ticks(self):
        tick_ms = self.tick_ms
        for level in self.wheel.snapshot().levels:
            assert (level.tick_ms, level.interval_ms) == (tick_ms, tick_ms * self.wheel_size)
            assert level.current_time_ms == self.clock_ms - self.clock_ms % tick_ms
            tick_ms *= self.wheel_size

    @invariant()
    def snapshot_follows_the_rule_of_placement(self):
        snapshot = self.wheel.snapshot()
        seen = []
        for number, level in enumerate(snapshot.levels, 1):
            for bucket in level.buckets:
                seen.append(bucket)
                assert bucket.level == number
                assert bucket.tasks, "empty buckets are left out"
                assert bucket.expiration_ms % level.tick_ms == 0
                assert bucket.index == bucket.expiration_ms // level.tick_ms % self.wheel_size
                ahead_ms = bucket.expiration_ms - level.current_time_ms
                assert level.tick_ms <= ahead_ms < level.interval_ms, "each bucket lies within one turn of its level"
                last_sequence = {}
                for task in bucket.tasks:
                    pending = self.current[task]
                    assert task.deadline_ms // level.tick_ms == bucket.expiration_ms // level.tick_ms
                    assert last_sequence.get(pending.tick, 0) < pending.sequence, "tasks of one tick are in order"
                    last_sequence[pending.tick] = pending.sequence
        assert list(snapshot.queue) == sorted(seen, key=lambda bucket: (bucket.expiration_ms, bucket.level))
        in_buckets = [task for bucket in seen for task in bucket.tasks]
        assert len(in_buckets) == len({*in_buckets})
        due = {task for task, pending in self.current.items() if pending.tick * self.tick_ms <= self.clock_ms}
        assert {*in_buckets} == {*self.current} - due
        if snapshot.queue and not due:
            assert self.wheel.next_expiration_ms == snapshot.queue[0].expiration_ms

    @invariant()
    def core_invariants_hold(self):
        check_invariants(self.wheel)


TestWheel = WheelMachine.TestCase
TestWheel.settings = search_settings(400, stateful_step_count=40)
