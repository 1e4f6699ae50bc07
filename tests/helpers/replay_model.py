"""Random timer logs, and the outcomes that a ManualTimer gives for them."""

from collections import defaultdict

from hypothesis import strategies as st

from hwheel import ManualTimer
from hwheel.replay import CANCELLED, FIRED

END_S = 2 * 10**9  # later than every deadline

# Mostly small numbers, so that several events meet at one instant.
instants = st.integers(0, 30) | st.integers(0, 300) | st.integers(0, 10**12)
timeouts = st.integers(-5, 40) | st.integers(0, 400) | st.integers(0, 10**10)


@st.composite
def log_rows(draw):
    """Draw (start_ms, timeout_ms, end_ms), ended near its start, near its deadline, at any time, or never."""
    start_ms, timeout_ms = draw(instants), draw(timeouts)
    end_ms = draw(st.none() | st.integers(-20, 20) | st.integers(-3, 3).map(timeout_ms.__add__) | st.integers(0, 500))
    return start_ms, timeout_ms, None if end_ms is None else start_ms + end_ms


def outcomes_by_timer(log, tick_ms, wheel_size):
    """Run the log on a ManualTimer, and return (outcome, at_ms) of each row.

    At one instant the timer runs expired tasks, then cancels tasks, then starts tasks.
    """
    timer = ManualTimer(tick_ms=tick_ms, wheel_size=wheel_size)
    outcomes = [None] * len(log)
    tasks = {}
    ends, starts = defaultdict(list), defaultdict(list)

    def fire(row):
        outcomes[row] = (FIRED, round(timer.time() * 1000))

    for row, (start_ms, _, end_ms) in enumerate(log):
        starts[start_ms].append(row)
        if end_ms is not None:
            ends[max(end_ms, start_ms)].append(row)
    for now_ms in sorted({*ends, *starts}):
        timer.advance((now_ms - round(timer.time() * 1000)) / 1000)
        for row in ends[now_ms]:
            if row in tasks and tasks[row].cancel():
                outcomes[row] = (CANCELLED, now_ms)
        for row in starts[now_ms]:
            tasks[row] = timer.call_later(log[row][1] / 1000, fire, row)
        timer.advance(0)
        for row in ends[now_ms]:
            if outcomes[row] is None and tasks[row].cancel():
                outcomes[row] = (CANCELLED, now_ms)
    timer.advance(END_S)
    timer.close()
    return outcomes
