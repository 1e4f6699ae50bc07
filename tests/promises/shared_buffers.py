"""One function that reads buffers, while another thread changes them. test_faults.py runs this program.

    python shared_buffers.py NAME SECONDS       NAME: one of CASES

The functions release the GIL while they read, so a value may change between its check and its use. Each case calls one
function with the same buffers again and again. A thread writes valid values, garbage, or a mixture into them. Each call
must return or raise, and in a debug build the invariants of the timer must hold.
"""

import faulthandler
import sys
import threading
import time
from array import array

import numpy as np

import hwheel
import hwheel_core
from sampling import seed_for, seeded_random

PATIENCE_S = 60
ROWS = 200_000
GARBAGE = np.array(
    [0, 1, -1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), 1 - 2**63, -(2**40), ROWS, ROWS - 1, ROWS + 1], dtype=np.int64
)


def ascending():
    return np.arange(ROWS, dtype=np.int64)


def shuffled():
    return np.random.default_rng(1).permutation(ROWS).astype(np.int64)


def few():
    return np.random.default_rng(2).integers(0, 1000, ROWS).astype(np.int64)


def ones():
    return np.zeros(ROWS, dtype=np.int64)


class Case:
    """Buffers, and a function that is called with them."""

    timer = None

    def __init__(self, call, *valid, garbage=GARBAGE, steady=()):
        self.call = call
        self.garbage = garbage
        self.steady = steady  # the numbers of the buffers that do not change
        self.valid = valid
        self.lent = [column.copy() for column in valid]

    def check(self):
        if self.timer is not None and hwheel_core.DEBUG:
            hwheel_core.debug_check(self.timer)


class AddCase(Case):
    def __init__(self):
        super().__init__(self.add, few())
        self.timer = hwheel.ManualTimer()
        self.random = seeded_random(4)

    def add(self, delays_ms):
        try:
            batch = self.timer.call_many(delays_ms, list)
        finally:
            self.check()
        assert len(batch) == ROWS
        if self.random.random() < 0.5:
            self.timer.advance(0.5)
        self.check()
        batch.cancel()


class BatchCase(Case):
    """Calls use(batch, lent) with a new batch, whose timers stay pending if `keeps` is true."""

    def __init__(self, use, valid, *, keeps=True):
        super().__init__(self.change_batch, valid)
        self.timer = hwheel.ManualTimer()
        self.use, self.keeps = use, keeps

    def change_batch(self, lent):
        batch = self.timer.call_many(few(), list)
        try:
            self.use(batch, lent)
        finally:
            self.check()
            assert len(batch.indices()) == batch.pending
            assert not self.keeps or batch.pending == ROWS
            batch.cancel()


def extend_case():
    random = seeded_random(5)

    def extend(batch, delays_ms):
        assert batch.extend(delays_ms) == range(ROWS, 2 * ROWS)
        if random.random() < 0.5:
            case.timer.advance(0.5)
        assert batch.extend(delays_ms, list) == range(2 * ROWS, 3 * ROWS)

    case = BatchCase(extend, few(), keeps=False)
    return case


def cancel_case(indices):
    return BatchCase(lambda batch, lent: batch.cancel(lent), indices, keeps=False)


def lateness(counts):
    p50, p99, worst = hwheel_core.lateness_of(counts)
    assert p50 >= 0 and p99 >= 0 and worst >= 0


def histogram():
    _, _, costs = hwheel_core.replay(array("q", [0]), array("q", [5]), array("q", [9]), array("q"), 10, 4)
    return np.array(costs[-1], dtype=np.int64)


def replay(starts_ms, timeouts_ms, ends_ms, end_order):
    outcomes, at_ms, costs = hwheel_core.replay(starts_ms, timeouts_ms, ends_ms, end_order, 1, 64)
    assert len(outcomes) == len(at_ms) == ROWS
    assert {*outcomes} <= {0, 1}
    assert outcomes.count(0) == costs[0]


def rows(function):
    def check(*columns):
        found = function(*columns)
        assert all(0 <= row < ROWS for row in found)
        return found

    return check


def whole_order(*columns):
    assert sorted(hwheel_core.order_by(*columns)) == list(range(ROWS))


def whole_groups(*columns):
    order, starts = hwheel_core.group(*columns)
    assert sorted(order) == list(range(ROWS))
    assert sorted(starts) == list(starts) and starts[-1] == ROWS


def placed(times_ms):
    levels, buckets_ms = hwheel_core.place(times_ms, 10**6, 20, 10)
    assert min(levels) >= 0 and max(levels) < 64 and min(buckets_ms) >= 0


CASES = {
    "call_many": AddCase,
    "extend": extend_case,
    "cancel in order": lambda: cancel_case(ascending()),
    "cancel anywhere": lambda: cancel_case(shuffled()),
    "reschedule anywhere": lambda: BatchCase(lambda batch, lent: batch.reschedule(lent, 7), shuffled()),
    "reschedule by delays": lambda: BatchCase(lambda batch, lent: batch.reschedule(None, lent), few()),
    "survivors": lambda: Case(rows(hwheel_core.survivors), shuffled(), ones(), few()),
    "survivors, repeated rows": lambda: Case(rows(hwheel_core.survivors), few(), ones(), few(), few()),
    "group": lambda: Case(whole_groups, few(), shuffled()),
    "order_by": lambda: Case(whole_order, few(), shuffled(), few()),
    "place": lambda: Case(placed, shuffled()),
    "replay": lambda: Case(replay, ascending(), few(), ascending() + 500, ascending()),
    "replay of valid input": lambda: Case(
        replay, ascending(), few(), ascending() + 500, shuffled()[:0], garbage=GARBAGE[:5], steady=(0, 3)
    ),
    "lateness_of": lambda: Case(lateness, histogram()),
}


def change(case, stop):
    """Write to the buffers. NumPy does so without the GIL."""
    random = np.random.default_rng(seed_for(3))
    while not stop.is_set():
        for i, (lent, valid) in enumerate(zip(case.lent, case.valid, strict=True)):
            if i in case.steady:
                continue
            part = slice(*sorted(random.integers(0, len(lent) + 1, 2)))
            kind = random.integers(4)
            if kind == 0:
                lent[part] = random.choice(case.garbage)
            elif kind == 1:
                lent[:] = valid
            elif kind == 2:
                places = random.integers(0, len(lent), 5)
                lent[places] = random.choice(case.garbage, len(places))
                time.sleep(0)
                lent[places] = valid[places]
            else:
                lent[part] = valid[part]


def main(name, seconds):
    case = CASES[name]()
    stop = threading.Event()
    thread = threading.Thread(target=change, args=(case, stop), daemon=True)
    sys.setswitchinterval(1e-4)
    give_up = time.monotonic() + seconds
    refused = calls = 0
    thread.start()
    while calls < 3 or time.monotonic() < give_up:
        faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
        calls += 1
        try:
            case.call(*case.lent)
        except (ValueError, IndexError, OverflowError):
            refused += 1
    stop.set()
    thread.join()
    case.check()
    case.call(*case.valid)  # valid input is accepted, so the search has not only met refusals
    print(f"all done: {calls} calls, {refused} refused")


if __name__ == "__main__":
    faulthandler.enable()
    if len(sys.argv) == 1:
        print("\n".join(CASES))
    else:
        main(sys.argv[1], float(sys.argv[2]))
