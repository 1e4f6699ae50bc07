"""DelayQueue compared with a heap, for random sequences of operations."""

import heapq
import queue

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hwheel import DelayQueue, ManualTimer, SystemTimer
from hwheel.types import ShutDown
from invariants import check_invariants
from sampling import search_settings

delays_ms = st.integers(-5, 40) | st.integers(0, 5000) | st.sampled_from([0, 0, 64, 4096, 10**7, 10**12])


class Model:
    """A heap of (deadline_ms, turn, item). Removed and moved items stay in it until they are popped."""

    def __init__(self):
        self.now_ms = 0
        self.turns = 0
        self.heap = []
        self.live = {}  # item -> (deadline_ms, turn)

    def place(self, item, delay_ms):
        self.turns += 1
        self.live[item] = (self.now_ms + max(0, delay_ms), self.turns)
        heapq.heappush(self.heap, (*self.live[item], item))

    def first(self):
        """Return (deadline_ms, item) of the next item, or None."""
        while self.heap and self.live.get(self.heap[0][2]) != self.heap[0][:2]:
            heapq.heappop(self.heap)
        return (self.heap[0][0], self.heap[0][2]) if self.heap else None

    def take_due(self):
        """Remove and return the first expired item, or None."""
        first = self.first()
        if first is None or first[0] > self.now_ms:
            return None
        del self.live[first[1]]
        return first[1]

    def drain(self):
        items = sorted(self.live, key=self.live.get)
        self.live.clear()
        return items


class DelayQueueMachine(RuleBasedStateMachine):
    @initialize(maxsize=st.sampled_from([0, 0, -1, 1, 5]), is_manual=st.booleans())
    def start(self, maxsize, is_manual):
        self.model = model = Model()
        self.is_manual = is_manual
        self.timer = (
            ManualTimer() if is_manual else SystemTimer(clock=lambda: model.now_ms, executor="inline", reaper=False)
        )
        self.maxsize = max(0, maxsize)
        self.queue = DelayQueue(maxsize, timer=self.timer)
        self.keys = []
        self.shut = False

    def put(self, item, delay_ms):
        try:
            key = self.queue.put_nowait(item, delay_ms / 1000)
        except queue.Full:
            assert 0 < self.maxsize == len(self.model.live) and not self.shut
        except ShutDown:
            assert self.shut
        else:
            assert not self.shut
            self.model.place(item, delay_ms)
            self.keys.append((key, item))

    @rule(delay_ms=delays_ms)
    def put_one(self, delay_ms):
        self.put(len(self.keys), delay_ms)

    @rule(delays=st.lists(delays_ms, max_size=60))
    def put_many(self, delays):
        for delay_ms in delays:
            self.put(len(self.keys), delay_ms)

    @rule(which=st.integers(0), delay_ms=delays_ms)
    def reset(self, which, delay_ms):
        if self.keys:
            key, item = self.keys[which % len(self.keys)]
            was_pending = item in self.model.live
            assert self.queue.reset(key, delay_ms / 1000) is was_pending
            if was_pending:
                self.model.place(item, delay_ms)

    @rule(which=st.integers(0))
    def remove(self, which):
        if self.keys:
            key, item = self.keys[which % len(self.keys)]
            try:
                assert self.queue.remove(key) == item
                del self.model.live[item]
            except KeyError as error:
                assert item not in self.model.live and error.args == (key,)

    @rule(count=st.integers(1, 30))
    def get(self, count):
        for _ in range(count):
            expected = self.model.take_due()
            try:
                assert self.queue.get(block=False) == expected
            except queue.Empty:
                assert expected is None and not (self.shut and not self.model.live)
                break
            except ShutDown:
                assert expected is None and self.shut and not self.model.live
                break

    @rule(ms=st.integers(0, 50) | st.integers(0, 10**5) | st.just(10**13))
    def advance(self, ms):
        if self.is_manual:
            self.timer.advance(ms / 1000)
        self.model.now_ms += ms

    @rule()
    def drain(self):
        assert self.queue.drain() == self.model.drain()

    @rule(immediate=st.booleans(), chance=st.integers(0, 5))
    def shutdown(self, immediate, chance):
        if chance == 0:
            self.queue.shutdown(immediate)
            self.shut = True
            if immediate:
                self.model.live.clear()

    @invariant()
    def queue_agrees_with_the_model(self):
        if not hasattr(self, "queue"):
            return
        first = self.model.first()
        key = self.queue.peek()
        if first is None:
            assert key is None
        else:
            assert (key.item, round(key.deadline * 1000), key.pending) == (first[1], first[0], True)
        assert len(self.queue) == self.queue.qsize() == len(self.model.live)
        assert self.queue.empty() == (not self.model.live)
        assert self.queue.full() == (0 < self.maxsize <= len(self.model.live))
        for key, item in self.keys[-3:]:
            assert key.pending == (item in self.model.live) and key.item == (item if key.pending else None)
        assert len(self.timer) == 0  # no thread waits
        check_invariants(self.queue)

    def teardown(self):
        if hasattr(self, "timer"):
            self.timer.close()


TestDelayQueue = DelayQueueMachine.TestCase
TestDelayQueue.settings = search_settings(150, stateful_step_count=40)
