"""ExpiringDict compared with a dict of deadlines, for random sequences of operations."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hwheel import ExpiringDict, ManualTimer
from invariants import check_invariants
from sampling import search_settings

keys = st.integers(0, 6)
ttls_ms = st.integers(1, 40) | st.integers(1, 5000) | st.sampled_from([10**7, 10**12])


class Model:
    """A dict of {key: [value, deadline_ms, ttl_ms]}, oldest entry first."""

    def __init__(self, ttl_ms, maxsize):
        self.ttl_ms, self.maxsize = ttl_ms, maxsize
        self.now_ms = 0
        self.entries = {}
        self.expired = []

    def set(self, key, value, ttl_ms):
        ttl_ms = ttl_ms or self.ttl_ms
        is_new = self.entries.pop(key, None) is None
        if is_new and self.maxsize and len(self.entries) == self.maxsize:
            del self.entries[next(iter(self.entries))]
        self.entries[key] = [value, self.now_ms + ttl_ms, ttl_ms]

    def touch(self, key, ttl_ms=None):
        if key not in self.entries:
            return False
        value, _, entry_ttl_ms = self.entries.pop(key)
        entry_ttl_ms = ttl_ms or entry_ttl_ms
        self.entries[key] = [value, self.now_ms + entry_ttl_ms, entry_ttl_ms]
        return True

    def advance(self, ms):
        self.now_ms += ms
        due = [(entry[1], key) for key, entry in self.entries.items() if entry[1] <= self.now_ms]
        for _, key in sorted(due, key=lambda pair: pair[0]):
            self.expired.append((key, self.entries.pop(key)[0]))


class ExpiringDictMachine(RuleBasedStateMachine):
    @initialize(
        ttl_ms=ttls_ms,
        maxsize=st.sampled_from([None, None, 1, 3]),
        refresh=st.booleans(),
        reports=st.booleans(),
        wheel_size=st.sampled_from([2, 512]),
    )
    def start(self, ttl_ms, maxsize, refresh, reports, wheel_size):
        self.timer = ManualTimer(wheel_size=wheel_size)
        self.reported = []
        self.refresh, self.reports = refresh, reports
        self.dict = ExpiringDict(
            ttl_ms / 1000,
            maxsize=maxsize,
            refresh=refresh,
            on_expire=self.reported.extend if reports else None,
            timer=self.timer,
        )
        self.model = Model(ttl_ms, maxsize)

    @rule(key=keys, value=st.integers(), ttl_ms=st.none() | ttls_ms)
    def set(self, key, value, ttl_ms):
        if ttl_ms is None:
            self.dict[key] = value
        else:
            self.dict.set(key, value, ttl=ttl_ms / 1000)
        self.model.set(key, value, ttl_ms)

    @rule(key=keys, ttl_ms=st.none() | ttls_ms)
    def touch(self, key, ttl_ms):
        assert self.dict.touch(key, None if ttl_ms is None else ttl_ms / 1000) == self.model.touch(key, ttl_ms)

    @rule(key=keys)
    def get(self, key):
        assert self.dict.get(key, "gone") == self.model.entries.get(key, ["gone"])[0]
        if self.refresh:
            self.model.touch(key)

    @rule(key=keys, value=st.integers())
    def setdefault(self, key, value):
        assert self.dict.setdefault(key, value) == self.model.entries.get(key, [value])[0]
        if key not in self.model.entries:
            self.model.set(key, value, None)
        elif self.refresh:
            self.model.touch(key)

    @rule(key=keys)
    def pop(self, key):
        assert self.dict.pop(key, "gone") == self.model.entries.pop(key, ["gone"])[0]

    @rule()
    def popitem(self):
        if self.model.entries:
            key, (value, _, _) = self.model.entries.popitem()
            assert self.dict.popitem() == (key, value)

    @rule(first=st.integers(0, 10**6), count=st.sampled_from([1, 30, 300]))
    def set_many(self, first, count):
        for key in range(first, first + count):
            self.dict[key] = None
            self.model.set(key, None, None)

    @rule()
    def clear(self):
        self.dict.clear()
        self.model.entries.clear()

    @rule(ms=st.integers(0, 50) | st.integers(0, 10**5) | st.just(10**13))
    def advance(self, ms):
        self.timer.advance(ms / 1000)
        self.model.advance(ms)

    @invariant()
    def dict_agrees_with_the_model(self):
        if not hasattr(self, "dict"):
            return
        assert [*self.dict.items()] == [(key, entry[0]) for key, entry in self.model.entries.items()]
        assert len(self.dict) == len(self.model.entries)
        for key, entry in [*self.model.entries.items()][:3]:
            assert round(self.dict.expires_in(key) * 1000) == entry[1] - self.model.now_ms
        assert self.reported == (self.model.expired if self.reports else [])
        assert bool(self.model.entries) <= len(self.timer) <= 1
        check_invariants(self.dict)


TestExpiringDict = ExpiringDictMachine.TestCase
TestExpiringDict.settings = search_settings(150, stateful_step_count=40)
