"""ManualTimer with tasks and batches, compared with a heap of (tick, sequence number)."""

import heapq
from array import array
from collections.abc import Callable
from typing import Any

import hwheel_core
from hwheel import ManualTimer, TimerBatch, TimerTask
from tape import LAST_MS, Tape, number, one_of

TICKS_MS = (1, 1, 2, 7, 1000)
SIZES = (2, 3, 4, 20, 256)
STARTS_MS = (0, 1000, 1_795_176_000_123, 2**62)
MAX_BATCH = 64
FAR_MS = 2**49  # a float of seconds is exact to the millisecond up to here


def run(data: bytes) -> int:
    """Run the operations that the bytes describe. Return their number."""
    tape: Tape = iter(data)
    tick_ms, size, start_ms = one_of(tape, TICKS_MS), one_of(tape, SIZES), one_of(tape, STARTS_MS)
    never_early = bool(next(tape, 0) & 1)
    errors: list[BaseException] = []
    timer = ManualTimer(
        tick_ms=tick_ms,
        wheel_size=size,
        start_ms=start_ms,
        never_early=never_early,
        on_error=lambda source, error: errors.append(error),
    )
    now_ms = start_ms
    heap: list[tuple[int, int, Any]] = []
    entered: dict[Any, tuple[int, int]] = {}  # number of a task, or (number of a batch, index) -> tick, sequence number
    tasks: list[TimerTask] = []
    batches: list[TimerBatch] = []
    callbacks: list[Callable[[array[int]], None]] = []
    ran: list[Any] = []
    operations = sequence = 0
    reaches_ms = (1, tick_ms, tick_ms * size, tick_ms * size * size)

    def enter(key: Any, delay_ms: int) -> None:
        nonlocal sequence
        sequence += 1
        expiration_ms = now_ms + delay_ms + (tick_ms - 1 if never_early and delay_ms > 0 else 0)
        entered[key] = place = expiration_ms // tick_ms, sequence
        heapq.heappush(heap, (*place, key))

    def advance(ms: int) -> None:
        nonlocal now_ms
        expected: list[Any] = []
        of_a_tick: dict[tuple[int, int], list[int]] = {}
        while heap and heap[0][0] * tick_ms <= now_ms + ms:
            tick, order, key = heapq.heappop(heap)
            if entered.get(key) != (tick, order):
                continue
            del entered[key]
            if isinstance(key, int):
                expected.append(key)
            elif (tick, key[0]) in of_a_tick:  # one call per tick, at the position of its first timer
                of_a_tick[tick, key[0]].append(key[1])
            else:
                of_a_tick[tick, key[0]] = indices = [key[1]]
                expected.append((key[0], indices))
        ran.clear()
        timer.advance(ms / 1000)
        assert not errors, errors
        assert ran == expected, f"at {now_ms} + {ms}: ran {ran}, expected {expected}"
        now_ms += ms

    for choice in tape:
        operations += 1
        what, reach_ms = choice & 7, reaches_ms[choice >> 3 & 3]
        extends = choice >> 5 & 1
        if what < 2:
            delay_ms = min(number(tape) * reach_ms, FAR_MS)
            entry = len(tasks)
            tasks.append(timer.call_later(delay_ms / 1000, ran.append, entry))
            enter(entry, delay_ms)
        elif what == 2 and extends and batches:
            called = number(tape) % len(batches)
            batch, length = batches[called], len(batches[called])
            delays_ms = [min(number(tape) * reach_ms, FAR_MS) for _ in range(next(tape, 0) % MAX_BATCH)]
            callback = None if batch.pending and choice >> 6 & 1 else callbacks[called]
            assert batch.extend(array("q", delays_ms), callback) == range(length, length + len(delays_ms))
            for index, delay_ms in enumerate(delays_ms, length):
                enter((called, index), delay_ms)
            operations += len(delays_ms)
        elif what == 2:
            delays_ms = [min(number(tape) * reach_ms, FAR_MS) for _ in range(next(tape, 0) % MAX_BATCH)]
            called = len(batches)

            def all_of(indices: "array[int]", called: int = called) -> None:
                ran.append((called, list(indices)))

            callbacks.append(all_of)
            batches.append(timer.call_many(array("q", delays_ms), all_of))
            for index, delay_ms in enumerate(delays_ms):
                enter((called, index), delay_ms)
            operations += len(delays_ms)
        elif what == 3 and tasks:
            entry = number(tape) % len(tasks)
            assert tasks[entry].cancel() == (entered.pop(entry, None) is not None)
        elif what == 4 and tasks:
            entry, delay_ms = number(tape) % len(tasks), min(number(tape) * reach_ms, FAR_MS)
            assert tasks[entry].reschedule(delay_ms / 1000) == (entry in entered)
            if entry in entered:
                enter(entry, delay_ms)
        elif what in (5, 6) and batches:
            called = number(tape) % len(batches)
            batch = batches[called]
            count = next(tape, 0) % 8 if len(batch) else 0
            indices = [number(tape) % len(batch) for _ in range(count)]
            delay_ms = min(number(tape) * reach_ms, FAR_MS)
            done = 0
            if what == 5:
                for index in indices:
                    done += entered.pop((called, index), None) is not None
                assert batch.cancel(array("q", indices)) == done
            else:
                for index in indices:
                    if (called, index) in entered:
                        enter((called, index), delay_ms)
                        done += 1
                assert batch.reschedule(array("q", indices), delay_ms) == done
        elif what == 7:
            advance(min(number(tape) * reach_ms, FAR_MS, LAST_MS - FAR_MS - 10 * tick_ms - now_ms))
        assert len(timer) == len(entered)
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(timer)
    stats = timer.stats()
    assert stats.added == stats.expired + stats.cancelled + stats.pending
    left = len(entered)
    if operations % 2:
        advance(min(FAR_MS, LAST_MS - 2 * FAR_MS - now_ms) if now_ms < 2**62 else FAR_MS)
        left = len(entered)
    returned = timer.close()
    assert sum(one.pending if isinstance(one, TimerBatch) else 1 for one in returned) == left
    return operations
