"""A model of the purgatory: operations with keys, conditions, completions, timeouts, and purges.

The model consists of plain sets and lists, without locks or shards. It holds the waiting operations and the entries of
each list. Each step of the machine is compared with it, and so are the counters.
"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hwheel import ManualTimer
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from sampling import search_settings

# 1, 1.0, and True are the same key, and so are equal tuples.
KEYS = st.sampled_from([1, 1.0, True, 2, 3, "1", ("topic", 0), ("topic", 1), ("topic", 1.0), None])
SOME_KEYS = st.lists(KEYS, min_size=1, max_size=5)
DELAYS = st.sampled_from([-1, 0, 1, 2, 5, 300, 70_000, 10**9])


class Operation(DelayedOperation):
    def __init__(self, delay_ms, machine, number, checks_when_complete):
        super().__init__(delay_ms)
        self.machine, self.number = machine, number
        self.checks_when_complete = checks_when_complete

    def try_complete(self):
        return self.number in self.machine.completable and self.force_complete()

    def on_complete(self):
        self.machine.completes(self.number)
        if self.checks_when_complete is not None:
            self.machine.check(self.checks_when_complete)

    def on_expiration(self):
        self.machine.expires(self.number)


class PurgatoryMachine(RuleBasedStateMachine):
    @initialize(purge_interval=st.sampled_from([0, 1, 3, 1000]))
    def set_up(self, purge_interval):
        self.timer = ManualTimer(start_ms=12_345)
        self.purgatory = DelayedOperationPurgatory("model", self.timer, purge_interval=purge_interval)
        self.now = 12_345
        self.operations = {}
        self.completable = set()
        self.lists = {}  # key -> numbers of operations in order, including completed ones until their entry is dropped
        self.deadlines = {}  # of operations with a pending timeout
        self.finished = []  # in the order in which they completed
        self.expired = []
        self.adding = None  # the operation in try_complete_else_watch
        self.forced = None  # the operation in force_complete
        self.since_purge = 0
        self.purged = 0

    # --- calls by the operations ---------------------------------------------------------------------------------

    def completes(self, number):
        assert number not in self.finished, "completed twice"
        self.finished.append(number)
        deadline_ms = self.deadlines.pop(number, self.now + 1)
        assert number in self.completable or number == self.forced or deadline_ms <= self.now, "nothing completes it"
        if self.adding == number:
            return  # completed by the first check, so it is in no list
        self.since_purge += 1
        if self.since_purge > self.purgatory.purge_interval:
            self.purge_model()

    def expires(self, number):
        assert self.finished.count(number) == 1
        self.expired.append(number)

    def purge_model(self):
        self.since_purge = 0
        for key, numbers in [*self.lists.items()]:
            waiting = [number for number in numbers if number not in self.finished]
            self.purged += len(numbers) - len(waiting)
            self.lists[key] = waiting

    # --- rules --------------------------------------------------------------------------------------------------

    @rule(delay_ms=DELAYS, keys=SOME_KEYS, holds=st.booleans(), then_check=st.none() | KEYS)
    def add(self, delay_ms, keys, holds, then_check):
        number = len(self.operations)
        operation = self.operations[number] = Operation(delay_ms, self, number, then_check)
        if holds:
            self.completable.add(number)
        self.adding = number
        assert self.purgatory.try_complete_else_watch(operation, keys) is holds
        self.adding = None
        assert operation.is_completed is holds
        if not holds:
            self.deadlines[number] = self.now + max(delay_ms, 0)
            for key in keys:
                if number not in self.lists.setdefault(key, []):
                    self.lists[key].append(number)

    @rule(data=st.data())
    def condition_comes_true(self, data):
        if self.operations:
            self.completable.add(data.draw(st.sampled_from([*self.operations])))

    @rule(key=KEYS)
    def check(self, key):
        """Also called inside on_complete."""
        visited = [*self.lists.get(key, [])]
        ready = [number for number in visited if number in self.completable and number not in self.finished]
        before = len(self.finished)
        completed = self.purgatory.check_and_complete(key)
        assert completed <= len(ready)
        assert {*ready} <= {*self.finished}
        # A completed operation may run a check itself, and complete some of these operations first.
        assert completed == len(ready) or len(self.finished) - before >= len(ready)
        self.lists[key] = [
            number for number in self.lists.get(key, []) if number not in visited or number not in self.finished
        ]

    @rule(data=st.data())
    def force(self, data):
        if self.operations:
            number = data.draw(st.sampled_from([*self.operations]))
            waits = number not in self.finished
            self.forced = number
            assert self.operations[number].force_complete() is waits
            self.forced = None

    @rule(key=KEYS)
    def cancel_for_key(self, key):
        cancelled = self.purgatory.cancel_for_key(key)
        waiting = [number for number in self.lists.pop(key, []) if number not in self.finished]
        assert cancelled == [self.operations[number] for number in waiting]
        for number in waiting:
            self.deadlines.pop(number, None)

    @rule(ms=st.sampled_from([0, 1, 2, 7, 300, 100_000]))
    def advance(self, ms):
        self.now += ms
        due = {number for number, deadline in self.deadlines.items() if deadline <= self.now}
        expired_before = len(self.expired)
        self.timer.advance(ms / 1000)
        assert due <= {*self.finished}
        assert {*self.expired[expired_before:]} <= due

    @rule()
    def purge(self):
        before = self.purged
        self.purge_model()
        assert self.purgatory.purge() == self.purged - before

    @invariant()
    def counters_agree(self):
        if not hasattr(self, "purgatory"):
            return
        stats = self.purgatory.stats()
        assert stats.watched == self.purgatory.watched == sum(map(len, self.lists.values()))
        assert stats.delayed == self.purgatory.num_delayed == len(self.timer) == len(self.deadlines)
        assert stats.completed == len(self.finished) == len({*self.finished})
        assert stats.expired == len(self.expired) == len({*self.expired})
        assert stats.purged == self.purged
        for number, operation in self.operations.items():
            assert operation.is_completed is (number in self.finished)

    def teardown(self):
        if not hasattr(self, "purgatory"):
            return
        waiting = {number for numbers in self.lists.values() for number in numbers if number not in self.finished}
        assert {operation.number for operation in self.purgatory.close()} == waiting
        assert (self.purgatory.watched, self.purgatory.num_delayed, len(self.timer)) == (0, 0, 0)
        self.timer.close()


TestPurgatory = PurgatoryMachine.TestCase
TestPurgatory.settings = search_settings(300, stateful_step_count=40)
