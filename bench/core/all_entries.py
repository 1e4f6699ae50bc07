"""Operations over all entries: the longest time for which they keep another thread from running."""

import copy
import threading
import time
from array import array
from collections.abc import Callable
from itertools import repeat
from typing import Any

from rich.console import Console

from hwheel import DelayQueue, ExpiringDict, ManualTimer, SystemTimer
from hwheel.cachetools import TTLCache
from lib.figures import median_and_range, show_rows
from lib.settings import Settings

NAP_S = 0.001
FAR_S = 3600.0

Operation = Callable[[], object]


def measure(settings: Settings, on_turn: Callable[[str], object]) -> dict[str, Any]:
    """Measure each operation in each round, beside a plain Python loop."""
    rows: dict[str, list[dict[str, float]]] = {}
    for number in range(settings.rounds):
        for name, prepare in OPERATIONS.items():
            on_turn(f"round {number + 1} of {settings.rounds}, {name}")
            rows.setdefault(name, []).append(measure_one(prepare, settings.all_entries))
    return {"entries": settings.all_entries, "rows": rows}


def measure_one(prepare: Callable[[int], Operation], entries: int) -> dict[str, float]:
    """Return the longest time in ms for which a second thread was held up, and the duration of the operation in ms."""
    operation = prepare(entries)
    late_s, done = array("d"), threading.Event()

    def look() -> None:
        while not done.is_set():
            begin = time.perf_counter()
            time.sleep(NAP_S)
            late_s.append(time.perf_counter() - begin - NAP_S)

    thread = threading.Thread(target=look)
    thread.start()
    while not late_s:
        time.sleep(NAP_S)
    begin = time.perf_counter()
    result = operation()
    took_s = time.perf_counter() - begin
    done.set()
    thread.join()
    del result
    return {"held_up_ms": max(late_s) * 1e3, "took_ms": took_s * 1e3}


# --- operations: each function prepares one of so many entries --------------------------------------------------------


def plain_loop(entries: int) -> Operation:
    def run() -> None:
        for _ in range(20 * entries):
            pass

    return run


def timer_of(entries: int) -> SystemTimer:
    timer = SystemTimer("bench")
    for number in range(entries):
        timer.call_later(FAR_S + number % 1000, print, number)
    return timer


def pending(entries: int) -> Operation:
    return timer_of(entries).pending


def census(entries: int) -> Operation:
    return timer_of(entries).census


def dump(entries: int) -> Operation:
    return timer_of(entries).dump


def load(entries: int) -> Operation:
    data = timer_of(entries).dump()
    timer = SystemTimer("bench")
    return lambda: timer.load(data)


def close(entries: int) -> Operation:
    return timer_of(entries).close


def group_of(entries: int) -> Any:
    group = ManualTimer().group()
    for number in range(entries):
        group.call_later(FAR_S + number % 1000, print, number)
    return group


def group_cancel(entries: int) -> Operation:
    return group_of(entries).cancel


def group_close(entries: int) -> Operation:
    return group_of(entries).close


def expire(entries: int) -> Operation:
    timer, count = ManualTimer(), iter(range(entries))
    for _ in repeat(None, entries):
        timer.call_later(1, next, count)
    return lambda: timer.advance(1)


def dict_of(entries: int, on_expire: Any = None) -> ExpiringDict[int, object]:
    made = ExpiringDict[int, object](60, timer=ManualTimer(), on_expire=on_expire)
    made.update(zip(range(entries), map(str, range(entries)), strict=True))
    return made


def cache_of(entries: int) -> TTLCache[int, object]:
    made = TTLCache[int, object](entries, 60, ManualTimer().time)
    made.update(zip(range(entries), map(str, range(entries)), strict=True))
    return made


def cache_clear(entries: int) -> Operation:
    return cache_of(entries).clear


def cache_expire(entries: int) -> Operation:
    cache = cache_of(entries)
    return lambda: cache.expire(3600)


def cache_equal(entries: int) -> Operation:
    one, other = cache_of(entries), cache_of(entries)
    return lambda: one == other


def cache_copy(entries: int) -> Operation:
    one = cache_of(entries)
    return lambda: copy.copy(one)


def cache_list(entries: int) -> Operation:
    one = cache_of(entries)
    return lambda: sum(1 for _ in one.items())


def freed(make: Callable[[int], object]) -> Callable[[int], Operation]:
    """Return the preparation of the release of the last reference."""

    def prepare(entries: int) -> Operation:
        return [make(entries)].clear

    return prepare


def dict_repr(entries: int) -> Operation:
    one = dict_of(entries)
    return lambda: repr(one)


def dict_clear(entries: int) -> Operation:
    return dict_of(entries).clear


def dict_equal(entries: int) -> Operation:
    one = dict_of(entries)
    other = one.copy()
    return lambda: one == other


def dict_equal_none(entries: int) -> Operation:
    one = dict_of(entries)
    return lambda: one == None  # noqa: E711


def dict_first(entries: int) -> Operation:
    one = dict_of(entries)
    return lambda: next(iter(one))


def dict_list(entries: int) -> Operation:
    one = dict_of(entries)
    return lambda: sum(1 for _ in one.items())


def dict_expire(entries: int) -> Operation:
    one = dict_of(entries)
    return lambda: one.timer.advance(60)  # type: ignore[attr-defined]


def dict_report(entries: int) -> Operation:
    one = dict_of(entries, len)
    return lambda: one.timer.advance(60)  # type: ignore[attr-defined]


def queue_of(entries: int) -> DelayQueue[str]:
    queue = DelayQueue[str](timer=ManualTimer())
    for number in range(entries):
        queue.put(str(number), FAR_S + number % 1000)
    return queue


def queue_drain(entries: int) -> Operation:
    return queue_of(entries).drain


def queue_shutdown(entries: int) -> Operation:
    queue = queue_of(entries)
    return lambda: queue.shutdown(True)


def queue_peek(entries: int) -> Operation:
    queue = DelayQueue[int](timer=ManualTimer())
    for number in range(entries):
        queue.put(number, FAR_S)
    return queue.peek


def batch_cancel(entries: int) -> Operation:
    timer = ManualTimer()
    batch = timer.call_many(array("q", range(3_600_000, 3_600_000 + entries)), len)
    return lambda: (batch.cancel(), timer)


def batch_close(entries: int) -> Operation:
    timer = ManualTimer()
    timer.call_many(array("q", range(3_600_000, 3_600_000 + entries)), len)
    return timer.close


def batch_expire(entries: int) -> Operation:
    timer = ManualTimer()
    timer.call_many(array("q", range(entries)), len)
    return lambda: timer.advance(FAR_S)


OPERATIONS: dict[str, Callable[[int], Operation]] = {
    "a plain Python loop": plain_loop,
    "timer.pending()": pending,
    "timer.census()": census,
    "timer.dump()": dump,
    "timer.load()": load,
    "timer.close()": close,
    "timer: release": freed(timer_of),
    "timer: expiry": expire,
    "group.cancel()": group_cancel,
    "group.close()": group_close,
    "batch.cancel()": batch_cancel,
    "batch: close() of its timer": batch_close,
    "batch: expiry": batch_expire,
    "dict.clear()": dict_clear,
    "dict == dict": dict_equal,
    "dict == None": dict_equal_none,
    "dict: first step of iteration": dict_first,
    "dict: whole iteration": dict_list,
    "dict: expiry": dict_expire,
    "dict: expiry with on_expire": dict_report,
    "dict: repr()": dict_repr,
    "dict: release": freed(dict_of),
    "cache.clear()": cache_clear,
    "cache == cache": cache_equal,
    "cache: whole iteration": cache_list,
    "cache: copy()": cache_copy,
    "cache.expire()": cache_expire,
    "cache: release": freed(cache_of),
    "queue.drain()": queue_drain,
    "queue.shutdown(True)": queue_shutdown,
    "queue.peek()": queue_peek,
    "queue: release": freed(queue_of),
}


def show(part: dict[str, Any], console: Console) -> None:
    """Print the longest waits. Their median over the rounds leaves out what only other programs cause."""

    def cell(rounds: list[dict[str, float]], name: str) -> str:
        return median_and_range([one[name] for one in rounds])

    rows = ([name, cell(rounds, "held_up_ms"), cell(rounds, "took_ms")] for name, rounds in part["rows"].items())
    title = f"the longest time for which an operation over {part['entries']:,} entries keeps another thread waiting, ms"
    show_rows(title, ["median (range) of the rounds", "longest wait", "whole operation"], rows, console)
