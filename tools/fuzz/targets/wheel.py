"""TimingWheel, compared with a heap of (tick, sequence number)."""

import heapq

import hwheel_core
from hwheel import TimerTask, TimingWheel
from tape import LAST_MS, Tape, number, one_of

TICKS_MS = (1, 1, 2, 3, 10, 1000, 86_400_000)
SIZES = (2, 3, 4, 5, 20, 64, 256)
STARTS_MS = (0, 1, 1000, 1_795_176_000_123, 2**62, LAST_MS - 5000, LAST_MS)


def run(data: bytes) -> int:
    """Run the operations that the bytes describe. Return their number."""
    tape: Tape = iter(data)
    tick_ms, size, clock_ms = one_of(tape, TICKS_MS), one_of(tape, SIZES), one_of(tape, STARTS_MS)
    wheel = TimingWheel(tick_ms, size, clock_ms)
    clock_ms -= clock_ms % tick_ms
    heap: list[tuple[int, int, TimerTask]] = []
    tasks: list[TimerTask] = []
    entered: dict[TimerTask, tuple[int, int]] = {}  # pending task -> tick, sequence number
    operations = sequence = 0
    reaches_ms = (1, tick_ms, tick_ms * size, tick_ms * size * size)

    def enter(task: TimerTask, expiration_ms: int) -> None:
        nonlocal sequence
        sequence += 1
        place = max(expiration_ms, clock_ms) // tick_ms, sequence
        entered[task] = place
        heapq.heappush(heap, (*place, task))

    def poll(now_ms: int) -> None:
        nonlocal clock_ms
        expected = []
        while heap and heap[0][0] * tick_ms <= now_ms:
            *place, task = heapq.heappop(heap)
            if entered.get(task) == tuple(place):
                del entered[task]
                expected.append(task)
        found = wheel.poll(now_ms)
        assert found == expected, f"expired at {now_ms}: {found}, expected {expected}"
        clock_ms = wheel.current_time_ms

    for choice in tape:
        operations += 1
        what, reach_ms = choice & 7, reaches_ms[choice >> 3 & 3]
        if what < 3:
            task = TimerTask(0)
            expiration_ms = min(clock_ms + number(tape) * reach_ms, LAST_MS)
            pends = wheel.add(task, expiration_ms)
            assert pends == (expiration_ms >= clock_ms + tick_ms)
            tasks.append(task)
            if pends:
                enter(task, expiration_ms)
            else:
                assert task.expired
        elif what == 3:
            task = TimerTask(0)
            assert not wheel.add(task, max(clock_ms - number(tape), -LAST_MS))
        elif what == 4 and tasks:
            task = tasks[number(tape) % len(tasks)]
            assert task.cancel() == (entered.pop(task, None) is not None)
        elif what == 5 and tasks:
            task = tasks[number(tape) % len(tasks)]
            delay_ms = min(number(tape) * reach_ms, LAST_MS - clock_ms, 2**49)
            assert task.reschedule(delay_ms / 1000) == (task in entered)
            if task in entered:
                enter(task, clock_ms + delay_ms)
        elif what == 6:
            poll(min(clock_ms + number(tape) * reach_ms, LAST_MS))
        elif what == 7:
            next_ms = wheel.next_expiration_ms
            time_ms = min(clock_ms + number(tape) * reach_ms, LAST_MS)
            if next_ms is not None:
                time_ms = min(time_ms, next_ms - 1)
            if time_ms >= 0:
                wheel.advance_clock(time_ms)
                clock_ms = max(clock_ms, time_ms - time_ms % tick_ms)
            assert wheel.current_time_ms == clock_ms
        assert len(wheel) == len(entered)
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(wheel)
    poll(LAST_MS)
    assert not entered and not len(wheel) and wheel.next_expiration_ms is None
    return operations
