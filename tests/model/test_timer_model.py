"""ManualTimer compared with a heap of (tick, sequence number), for random sequences of operations.

Each callback checks that it is the next one in the model. Callbacks also add, cancel, and reschedule timers.
"""

import heapq
from array import array
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hwheel import ManualTimer, TimerTask
from invariants import check_invariants
from reach import LAST_MS, Reach, any_one, as_seconds_can_say, in_seconds, near, reaches, starts
from sampling import search_settings


class Entry(NamedTuple):
    tick: int  # tick of the finest level in which the timer expires
    sequence: int
    key: object  # number of a task, or (number of a batch, index)


class Job(TimerTask):
    """A task with its own run(), which can be added again."""

    def __init__(self, delay_ms, machine, number):
        super().__init__(delay_ms)
        self.machine, self.number = machine, number

    def run(self):
        self.machine.task_runs(self.number)


picks = st.lists(any_one, max_size=8)
kinds = st.sampled_from(["add", "call_later", "job"])
actions = st.lists(  # of a callback
    st.tuples(st.just("add"), kinds, near)
    | st.tuples(st.just("add"), kinds, st.just(Reach(0, 0, 0)))
    | st.tuples(st.just("cancel"), any_one)
    | st.tuples(st.just("reschedule"), any_one, near)
    | st.tuples(st.just("call_many"), st.lists(near, max_size=6))
    | st.tuples(st.just("extend_batch"), any_one, st.lists(near, max_size=6))
    | st.tuples(st.just("cancel_of_batch"), any_one, picks)
    | st.tuples(st.just("reschedule_of_batch"), any_one, picks, st.lists(near, min_size=1, max_size=8))
    | st.tuples(st.just("again")),
    max_size=3,
)


class TimerMachine(RuleBasedStateMachine):
    """All operations of a ManualTimer, by the caller and by callbacks."""

    @initialize(
        tick_ms=st.sampled_from([1, 1, 1, 2, 7, 20, 1000]),
        wheel_size=st.sampled_from([2, 3, 4, 5, 10, 20, 60, 256]),
        start_ms=starts,
        never_early=st.booleans(),
        ending=st.sampled_from(["advance", "close", "close and run"]),
    )
    def make(self, tick_ms, wheel_size, start_ms, never_early, ending):
        self.tick_ms, self.wheel_size, self.never_early, self.ending = tick_ms, wheel_size, never_early, ending
        self.faults = []
        self.timer = ManualTimer(
            tick_ms=tick_ms,
            wheel_size=wheel_size,
            start_ms=start_ms,
            never_early=never_early,
            on_error=lambda source, fault: self.faults.append(fault),
        )
        self.now_ms = self.target_ms = start_ms
        self.heap = []
        self.current = {}  # key -> its Entry; other entries of the heap are stale
        self.tasks = []
        self.actions = {}  # number of a task -> the actions of its next run
        self.entered_ms = {}  # number of a task -> when it was added or rescheduled
        self.batches = []
        self.callbacks = []  # of the batches
        self.extends_then = {}  # number of a batch -> extensions by its next run: (which, reaches)
        self.added = self.expired = self.cancelled = self.returned = self.sequence = 0
        self.closing = None  # the keys that close(run_pending=True) runs

    def teardown(self):
        if not hasattr(self, "timer"):
            return
        if self.ending == "advance" and self.current:
            self.advance_by(min((max(self.current.values()).tick + 1) * self.tick_ms, LAST_MS) - self.now_ms)
        expected = self.pending_in_order()
        if self.ending == "close and run":
            self.closing = []
            assert self.timer.close(run_pending=True) == []
            self.raise_faults()
            assert self.closing == expected
            self.expired += len(self.current)
        else:
            returned = self.timer.close()
            assert [self.name_of(one) for one in returned] == expected
            self.returned = len(self.current)
        self.current.clear()
        self.counters_are_exact()
        assert self.timer.closed
        assert self.timer.close() == []

    def pending_in_order(self):
        """Return the expected result of close(): tasks and batches by time, a batch at the place of its first timer."""
        left = {}
        for entry in sorted(self.current.values()):
            if isinstance(entry.key, tuple):
                left.setdefault(("batch", entry.key[0]), []).append(entry.key[1])
            else:
                left["task", entry.key] = []
        return [(kind, number, indices) for (kind, number), indices in left.items()]

    def name_of(self, returned):
        if isinstance(returned, TimerTask):
            assert returned.cancelled
            number = next(number for number, task in enumerate(self.tasks) if task is returned)
            assert isinstance(returned, Job) or (returned.callback, returned.args) == (self.task_runs, (number,))
            return "task", number, []
        number = next(number for number, batch in enumerate(self.batches) if batch is returned)
        assert returned.pending == len(returned.indices())
        return "batch", number, list(returned.indices())

    # --- the model ---------------------------------------------------------------------------------------------------

    def enter(self, key, delay_ms):
        """Add a key to the model. The delay may have a fraction."""
        if delay_ms <= 0:
            expiration_ms = self.now_ms
        elif self.never_early:
            expiration_ms = self.now_ms - int(-delay_ms // 1) + self.tick_ms - 1
        else:
            expiration_ms = self.now_ms + int(delay_ms // 1)
        self.sequence += 1
        self.current[key] = Entry(expiration_ms // self.tick_ms, self.sequence, key)
        heapq.heappush(self.heap, self.current[key][:2] + (self.current[key],))
        if not isinstance(key, tuple):
            self.entered_ms[key] = self.now_ms

    def first(self):
        while self.heap and self.current.get(self.heap[0][2].key) is not self.heap[0][2]:
            heapq.heappop(self.heap)
        return self.heap[0][2] if self.heap else None

    def take_next(self, key):
        entry = self.first()
        assert entry is not None, "a timer ran twice or after its cancel"
        assert entry.key == key, "out of order"
        assert entry.tick * self.tick_ms <= self.target_ms, "too early"
        self.now_ms = max(self.now_ms, entry.tick * self.tick_ms)
        assert self.timer.time() == self.now_ms * 10**6 / 1e9, "time() in a callback is its tick"
        del self.current[key]
        self.expired += 1
        return entry

    def delay_of(self, reach):
        """Return a delay whose rounded deadline fits into 64 bits."""
        delay_ms = reach.ms(self.tick_ms, self.wheel_size)
        return min(delay_ms, max(0, LAST_MS - (self.tick_ms - 1) - self.now_ms))

    # --- callbacks ---------------------------------------------------------------------------------------------------

    def task_runs(self, number):
        if self.closing is not None:
            self.closing.append(("task", number, []))
            return
        self.take_next(number)
        task = self.tasks[number]
        assert task.expired
        if self.never_early:
            assert self.now_ms >= task.deadline_ms
        assert self.now_ms - max(task.deadline_ms, self.entered_ms[number]) < self.tick_ms
        self.counters_are_exact()
        for action, *arguments in self.actions.pop(number, ()):
            if action == "again":
                self.add_again(number)
            else:
                getattr(self, "do_" + action)(*arguments)

    def batch_runs(self, number, indices):
        assert isinstance(indices, array)
        assert indices.typecode == "q"
        assert len(indices)
        if self.closing is not None:
            self.closing.append(("batch", number, list(indices)))
            return
        # One call per tick, at the place of its first timer. Moved timers come after the others.
        tick = self.take_next((number, indices[0])).tick
        others = [one for key, one in self.current.items() if isinstance(key, tuple) and key[0] == number]
        rest = sorted(one for one in others if one.tick == tick)
        assert [one.key[1] for one in rest] == list(indices[1:]), "one call a tick, in order"
        for one in rest:
            del self.current[one.key]
            self.expired += 1
        self.counters_are_exact()
        for extension in self.extends_then.pop(number, ()):
            self.do_extend_batch(*extension)

    def raise_faults(self):
        if self.faults:
            raise self.faults[0]

    # --- operations of callers and callbacks -------------------------------------------------------------------------

    def do_add(self, kind, reach, actions=()):
        number, delay_ms = len(self.tasks), self.delay_of(reach)
        if kind == "call_later" and abs(delay_ms) < 10**9:
            self.tasks.append(self.timer.call_later(delay_ms / 1000, self.task_runs, number))
        else:
            task = Job(delay_ms, self, number) if kind == "job" else TimerTask(delay_ms, self.task_runs, number)
            assert task.deadline_ms is None
            assert self.timer.add(task) is task
            self.tasks.append(task)
        assert self.tasks[number].deadline_ms == self.now_ms + delay_ms
        self.added += 1
        self.actions[number] = actions
        self.enter(number, delay_ms)

    def add_again(self, number):
        task = self.tasks[number]
        delay_ms = task.delay_ms
        if isinstance(task, Job) and task.expired and self.now_ms + delay_ms + self.tick_ms - 1 <= LAST_MS:
            self.timer.add(task)
            self.added += 1
            self.enter(number, delay_ms)

    def do_cancel(self, which):
        if self.tasks:
            number = which % len(self.tasks)
            was_pending = number in self.current
            assert self.tasks[number].cancel() == was_pending
            if was_pending:
                del self.current[number]
                self.cancelled += 1

    def do_reschedule(self, which, reach):
        if self.tasks:
            number, delay_ms = which % len(self.tasks), as_seconds_can_say(self.delay_of(reach))
            was_pending = number in self.current
            assert self.tasks[number].reschedule(in_seconds(delay_ms)) == was_pending
            if was_pending:
                self.enter(number, delay_ms)
                assert self.tasks[number].deadline_ms == self.now_ms + delay_ms
                assert self.tasks[number].delay_ms == delay_ms

    def do_call_many(self, reaches):
        number, delays_ms = len(self.batches), [self.delay_of(reach) for reach in reaches]
        self.callbacks.append(lambda indices: self.batch_runs(number, indices))
        self.batches.append(self.timer.call_many(array("q", delays_ms), self.callbacks[number]))
        self.added += len(delays_ms)
        for index, delay_ms in enumerate(delays_ms):
            self.enter((number, index), delay_ms)

    def do_extend_batch(self, which, reaches):
        if not self.batches:
            return
        number, delays_ms = which % len(self.batches), [self.delay_of(reach) for reach in reaches]
        batch, length = self.batches[number], len(self.batches[number])
        if batch.pending and which % 2:
            new = batch.extend(array("q", delays_ms))
        else:
            new = batch.extend(array("q", delays_ms), self.callbacks[number])
        assert new == range(length, length + len(reaches)) == range(length, len(batch))
        self.added += len(delays_ms)
        for index, delay_ms in zip(new, delays_ms, strict=True):
            self.enter((number, index), delay_ms)

    def do_cancel_of_batch(self, which, picks):
        if self.batches:
            number = which % len(self.batches)
            batch = self.batches[number]
            indices = [pick % len(batch) for pick in picks if len(batch)]
            chosen = {index for index in indices if (number, index) in self.current}
            assert batch.cancel(array("q", indices)) == len(chosen)
            for index in chosen:
                del self.current[number, index]
            self.cancelled += len(chosen)

    def do_reschedule_of_batch(self, which, picks, reaches):
        """Use one delay for all indices, or pair indices and delays."""
        if not self.batches:
            return
        number = which % len(self.batches)
        batch = self.batches[number]
        indices = [pick % len(batch) for pick in picks if len(batch)]
        delays_ms = [self.delay_of(reach) for reach in reaches]
        if len(delays_ms) == 1:
            delays_ms = delays_ms * len(indices)
            given = self.delay_of(reaches[0])
        else:
            del indices[len(delays_ms) :]
            del delays_ms[len(indices) :]
            given = array("q", delays_ms)
        moved = 0
        for index, delay_ms in zip(indices, delays_ms, strict=True):
            if (number, index) in self.current:
                self.enter((number, index), delay_ms)
                moved += 1
        assert batch.reschedule(array("q", indices), given) == moved

    # --- operations of callers ---------------------------------------------------------------------------------------

    @rule(kind=kinds, reach=reaches, actions=actions)
    def add(self, kind, reach, actions):
        self.do_add(kind, reach, actions)

    @rule(kind=kinds, count=st.integers(1, 4), before_ms=st.sampled_from([0, 0, 1, 5000]), actions=actions)
    def add_expired(self, kind, count, before_ms, actions):
        for _ in range(count):
            self.do_add(kind, Reach(0, 0, -before_ms), actions)

    @rule(reach=near, kinds=st.lists(kinds, min_size=2, max_size=5), actions=actions)
    def add_several_for_one_time(self, reach, kinds, actions):
        for kind in kinds:
            self.do_add(kind, reach, actions)

    @rule(micros=st.integers(-3000, 30_000))
    def call_later_by_a_fraction(self, micros):
        number = len(self.tasks)
        if self.now_ms < 2**62:
            self.tasks.append(self.timer.call_later(micros / 1e6, self.task_runs, number))
            self.added += 1
            self.enter(number, micros / 1000)

    @precondition(lambda self: self.current)
    @rule(which=any_one, kind=kinds, actions=actions)
    def add_to_a_tick_in_use(self, which, kind, actions):
        tick = list(self.current.values())[which % len(self.current)].tick
        self.do_add(kind, Reach(0, 0, tick * self.tick_ms - self.now_ms), actions)

    @rule(which=any_one)
    def add_an_expired_task_again(self, which):
        if self.tasks:
            self.add_again(which % len(self.tasks))

    @rule(reaches=st.lists(reaches, max_size=30))
    def call_many(self, reaches):
        self.do_call_many(reaches)

    @rule(reach=reaches, count=st.integers(1, 300), step_ms=st.integers(-3, 50))
    def call_many_in_steps(self, reach, count, step_ms):
        self.do_call_many([Reach(reach.level, reach.ticks, reach.rest_ms + i * step_ms) for i in range(count)])

    @rule(which=any_one, reaches=st.lists(reaches, max_size=30))
    def extend_batch(self, which, reaches):
        self.do_extend_batch(which, reaches)

    @rule(which=any_one, reach=reaches, count=st.integers(1, 300), step_ms=st.integers(-3, 50))
    def extend_batch_in_steps(self, which, reach, count, step_ms):
        self.do_extend_batch(
            which, [Reach(reach.level, reach.ticks, reach.rest_ms + i * step_ms) for i in range(count)]
        )

    @rule(which=any_one, extended=st.lists(st.tuples(any_one, st.lists(near, max_size=6)), min_size=1, max_size=2))
    def extend_batches_from_a_batch_callback(self, which, extended):
        if self.batches:
            self.extends_then[which % len(self.batches)] = extended

    @rule(which=any_one)
    def cancel(self, which):
        self.do_cancel(which)

    @rule(which=any_one, picks=picks)
    def cancel_of_batch(self, which, picks):
        self.do_cancel_of_batch(which, picks)

    @rule(which=any_one, picks=picks, reaches=st.lists(reaches, min_size=1, max_size=8))
    def reschedule_of_batch(self, which, picks, reaches):
        self.do_reschedule_of_batch(which, picks, reaches)

    @rule(which=any_one)
    def cancel_a_whole_batch(self, which):
        if self.batches:
            number = which % len(self.batches)
            keys = [key for key in self.current if isinstance(key, tuple) and key[0] == number]
            assert self.batches[number].cancel() == len(keys)
            for key in keys:
                del self.current[key]
            self.cancelled += len(keys)

    @rule(which=any_one, reach=reaches)
    def reschedule(self, which, reach):
        self.do_reschedule(which, reach)

    def advance_by(self, ms):
        ms = as_seconds_can_say(ms)
        self.target_ms = self.now_ms + ms
        self.timer.advance(in_seconds(ms))
        self.raise_faults()
        first = self.first()
        assert first is None or first.tick * self.tick_ms > self.target_ms, "an expired timer did not run"
        self.now_ms = self.target_ms

    @rule(ms=st.integers(0, 30))
    def advance_a_little(self, ms):
        self.advance_by(min(ms, LAST_MS - self.now_ms))

    @rule(reach=reaches)
    def advance_by_a_jump(self, reach):
        self.advance_by(min(max(0, reach.ms(self.tick_ms, self.wheel_size)), LAST_MS - self.now_ms))

    @precondition(lambda self: self.current)
    @rule(short_ms=st.sampled_from([0, 0, 1]))
    def advance_to_the_next_tick(self, short_ms):
        self.advance_by(max(0, self.first().tick * self.tick_ms - self.now_ms - short_ms))

    # --- invariants --------------------------------------------------------------------------------------------------

    @invariant()
    def counters_are_exact(self):
        stats = self.timer.stats()
        assert (stats.added, stats.expired, stats.cancelled) == (self.added, self.expired, self.cancelled)
        assert stats.added == stats.expired + stats.cancelled + stats.pending + self.returned
        assert stats.pending == len(self.timer) == len(self.timer) == len(self.current)

    @invariant()
    def time_is_the_sum_of_advances(self):
        assert self.timer.time() == self.now_ms * 10**6 / 1e9

    @invariant()
    def each_task_is_in_one_state(self):
        for number, task in enumerate(self.tasks):
            assert task.pending == (number in self.current)
            assert task.pending + task.expired + task.cancelled == 1
            if not isinstance(task, Job):
                assert (task.callback is not None) == task.pending, "a callback is released when it has run"

    @invariant()
    def pending_lists_tasks_in_run_order(self):
        in_order = [entry.key for entry in sorted(self.current.values(), key=lambda entry: entry[:2])]
        assert self.timer.pending() == [self.tasks[key] for key in in_order if not isinstance(key, tuple)]

    @invariant()
    def batches_list_their_pending_timers(self):
        pending = [[] for _ in self.batches]
        for key in self.current:
            if isinstance(key, tuple):
                pending[key[0]].append(key[1])
        for batch, indices in zip(self.batches, pending, strict=True):
            assert batch.pending == len(indices)
            assert list(batch.indices()) == sorted(indices)
            assert (batch.callback is None) == (not indices)

    @invariant()
    def core_invariants_hold(self):
        check_invariants(self.timer)


TestTimer = TimerMachine.TestCase
TestTimer.settings = search_settings(400, stateful_step_count=40)
