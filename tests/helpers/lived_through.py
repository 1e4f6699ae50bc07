"""Logs of a few timers, and a ManualTimer that lives through them."""

from collections import defaultdict

from hypothesis import strategies as st

from hwheel import ManualTimer
from hwheel.replay import CANCELLED, FIRED

# Small numbers first: what matters is what meets at one instant.
instants = st.integers(0, 30) | st.integers(0, 300) | st.integers(0, 10**12)
timeouts = st.integers(-5, 40) | st.integers(0, 400) | st.integers(0, 10**10)


@st.composite
def rows(draw):
    """(start_ms, timeout_ms, end_ms): ended around its start, around its deadline, sometime, or never."""
    start_ms, timeout_ms = draw(instants), draw(timeouts)
    end_ms = draw(st.none() | st.integers(-20, 20) | st.integers(-3, 3).map(timeout_ms.__add__) | st.integers(0, 500))
    return start_ms, timeout_ms, None if end_ms is None else start_ms + end_ms


def lived_through(log, tick_ms, wheel_size):
    """(outcome, at_ms) of each row, by a ManualTimer: at one instant it fires, cancels, and then starts timers."""
    timer = ManualTimer(tick_ms=tick_ms, wheel_size=wheel_size)
    found = [None] * len(log)
    tasks = {}
    ends, starts = defaultdict(list), defaultdict(list)

    def fire(row):
        found[row] = (FIRED, round(timer.time() * 1000))

    for row, (start_ms, _, end_ms) in enumerate(log):
        starts[start_ms].append(row)
        if end_ms is not None:
            ends[max(end_ms, start_ms)].append(row)
    for now_ms in sorted({*ends, *starts}):
        timer.advance((now_ms - round(timer.time() * 1000)) / 1000)
        for row in ends[now_ms]:
            if row in tasks and tasks[row].cancel():
                found[row] = (CANCELLED, now_ms)
        for row in starts[now_ms]:
            start_ms, timeout_ms, end_ms = log[row]
            tasks[row] = timer.call_later(timeout_ms / 1000, fire, row)
        timer.advance(0)
        for row in ends[now_ms]:
            if found[row] is None and tasks[row].cancel():
                found[row] = (CANCELLED, now_ms)
    timer.advance((2 * 10**12) / 1000)
    timer.close()
    return found
