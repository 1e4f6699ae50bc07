"""Dumps loaded after any delay, compared with plain arithmetic."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hwheel import ManualTimer

START = 1_000  # seconds since 1970; small, so that as a float it is exact to the nanosecond
RAN = []


def note(number):
    RAN.append(number)


tasks = st.lists(st.tuples(st.sampled_from([0, 1, 3, 20, 21, 400, 5000, 60_000]), st.booleans()), max_size=25)
spans_ms = st.sampled_from([0, 1, 2, 19, 20, 300, 5000, 100_000])


@settings(max_examples=150, deadline=None)
@given(
    tasks,
    st.lists(st.integers(0, 24)),
    spans_ms,
    spans_ms,
    st.sampled_from(["run", "return"]),
    st.sampled_from([1, 20]),
)
def test_each_task_runs_once_or_is_returned(added, cancelled, uptime_ms, downtime_ms, overdue, tick_ms):
    RAN.clear()
    old, made = ManualTimer(wheel_size=20), []
    group = old.group()
    for number, (delay_ms, in_group) in enumerate(added):
        made.append((group if in_group else old).call_later(delay_ms / 1000, note, number))
    cancelled_numbers = {number for number in cancelled if number < len(made) and made[number].cancel()}
    old.advance(uptime_ms / 1000)
    due = {number: delay for number, (delay, _) in enumerate(added) if number not in cancelled_numbers}
    ran_before = {number for number, delay in due.items() if delay <= uptime_ms}
    assert {*RAN} == ran_before and len(RAN) == len(ran_before)
    data = old.dump(now=START + uptime_ms / 1000)
    new = ManualTimer(tick_ms=tick_ms, wheel_size=8, start_ms=7_000_000)
    loaded = new.load(data, overdue=overdue, now=START + (uptime_ms + downtime_ms) / 1000)
    now_ms = uptime_ms + downtime_ms
    late = {number for number, delay in due.items() if uptime_ms < delay <= now_ms}
    left = {*due} - ran_before
    if overdue == "return":
        assert {task.args[0]: task.delay_ms for task in loaded.overdue} == {one: due[one] - now_ms for one in late}
        left -= late
    else:
        assert loaded.overdue == []
    assert {task.args[0]: task.delay_ms for task in loaded.tasks} == {number: due[number] - now_ms for number in left}
    RAN.clear()
    new.advance(0)
    assert {*RAN} == left & late and RAN == sorted(RAN, key=lambda number: due[number])
    while len(new):
        before = len(RAN)
        new.advance(max(0, new.next_deadline - new.time()) + tick_ms / 1000)
        time_ms = round(new.time() * 1000) - 7_000_000
        for number in RAN[before:]:
            assert due[number] - now_ms <= time_ms
    assert sorted(RAN) == sorted(left)
