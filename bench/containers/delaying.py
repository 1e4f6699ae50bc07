"""DelayQueue beside a heap, a priority queue, and a sorted list: put, reset, remove, get, and memory."""

import heapq
import queue
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from rich.console import Console

from containers.compared import bytes_each, measure_operations, processor_ns, rows_of
from hwheel import DelayQueue, ManualTimer
from lib.figures import show_rows
from lib.machine import installed, isolated
from lib.settings import Settings

OPERATIONS = ("put", "reset", "remove", "get")
LONGEST_S = 3600.0


class Ours:
    """A DelayQueue.

    The others have the same methods. `put` returns the key of an item for `reset` and `remove`. `get` returns the first
    item, and does not compare its deadline with the clock. `lacks` has the operations that a queue does not have.
    """

    name = "hwheel.DelayQueue"
    module: str | None = None
    lacks: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.timer = ManualTimer()
        items = DelayQueue[Any](timer=self.timer)
        self.put, self.reset, self.remove, self.get = items.put, items.reset, items.remove, items.get

    def let_all_fall_due(self) -> None:
        self.timer.advance(2 * LONGEST_S)


class OfPriorityQueue:
    """Tuples (when, number, item)."""

    name = "queue.PriorityQueue"
    module = None
    lacks = frozenset({"reset", "remove"})

    def __init__(self) -> None:
        self.items: queue.PriorityQueue[Any] = queue.PriorityQueue()
        self.numbers = count()

    def put(self, item: Any, delay_s: float) -> None:
        self.items.put((delay_s, next(self.numbers), item))

    def get(self) -> Any:
        return self.items.get()[2]


class OfHeap:
    """Lists [when, number, item] in a heap under a lock. A removed item is replaced by None."""

    name = "heapq and a lock"
    module = None
    lacks: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.heap: list[list[Any]] = []
        self.numbers = count()
        self.lock = threading.Lock()

    def put(self, item: Any, delay_s: float) -> list[Any]:
        entry = [delay_s, next(self.numbers), item]
        with self.lock:
            heapq.heappush(self.heap, entry)
        return entry

    def remove(self, key: list[Any]) -> Any:
        with self.lock:
            item, key[2] = key[2], None
        return item

    def reset(self, key: list[Any], delay_s: float) -> list[Any]:
        return self.put(self.remove(key), delay_s)

    def get(self) -> Any:
        with self.lock:
            while True:
                item = heapq.heappop(self.heap)[2]
                if item is not None:
                    return item


class OfSortedList:
    """Tuples (when, number, item) in a sorted list under a lock."""

    name = "sortedcontainers and a lock"
    module = "sortedcontainers"
    lacks: frozenset[str] = frozenset()

    def __init__(self) -> None:
        from sortedcontainers import SortedList

        self.items = SortedList()
        self.numbers = count()
        self.lock = threading.Lock()

    def put(self, item: Any, delay_s: float) -> tuple[Any, ...]:
        entry = (delay_s, next(self.numbers), item)
        with self.lock:
            self.items.add(entry)
        return entry

    def remove(self, key: tuple[Any, ...]) -> Any:
        with self.lock:
            self.items.remove(key)
        return key[2]

    def reset(self, key: tuple[Any, ...], delay_s: float) -> tuple[Any, ...]:
        return self.put(self.remove(key), delay_s)

    def get(self) -> Any:
        with self.lock:
            return self.items.pop(0)[2]


ALL: tuple[Any, ...] = (Ours, OfHeap, OfPriorityQueue, OfSortedList)


def measure(settings: Settings, on_turn: Callable[[str], object]) -> dict[str, Any]:
    """Measure ns of processor time per operation in each round, and bytes per item."""
    makes, left_out = installed(ALL)
    items = settings.container_entries
    on_turn("operations")
    return {
        "items": items,
        "cells": measure_operations(makes, operations, items, settings.rounds),
        "bytes": {make.name: isolated("containers.delaying", "bytes_of", make.name, items) for make in makes},
        "left_out": left_out,
    }


def operations(make: Any, items: int) -> dict[str, float]:
    """Measure ns per operation in random order. Half of the items are reset and removed; get takes the others."""
    chance = np.random.default_rng(7)
    delays = chance.uniform(1, LONGEST_S, items).tolist()
    later = chance.uniform(1, LONGEST_S, items).tolist()
    numbers = [int(number) for number in chance.permutation(items)[: items // 2]]
    remaining = items if make.lacks else items - len(numbers)
    made = make()
    put, get = made.put, made.get
    keys: list[Any] = []

    def put_all() -> None:
        for number, delay in enumerate(delays):
            keys.append(put(number, delay))

    def reset_half() -> None:
        reset = made.reset
        for number in numbers:
            moved = reset(keys[number], later[number])
            if moved is not True:  # a new key
                keys[number] = moved

    def remove_half() -> None:
        remove = made.remove
        for number in numbers:
            remove(keys[number])

    def get_all() -> None:
        for _ in range(remaining):
            get()

    ns = {"put": processor_ns(put_all, items)}
    if not make.lacks:
        ns["reset"] = processor_ns(reset_half, len(numbers))
        ns["remove"] = processor_ns(remove_half, len(numbers))
    keys.clear()
    if make is Ours:
        made.let_all_fall_due()
    ns["get"] = processor_ns(get_all, remaining)
    return ns


def bytes_of(name: str, items: int) -> float:
    """Measure bytes per item without the item, in another process that keeps no keys."""
    [make] = [make for make in installed(ALL)[0] if make.name == name]
    delays = np.random.default_rng(7).uniform(1, LONGEST_S, items).tolist()
    made = make()

    def fill() -> None:
        for delay in delays:
            made.put("item", delay)

    return bytes_each(fill, items)


def show(part: dict[str, Any], console: Console) -> None:
    """Print a table of operations and bytes."""
    title = f"queues whose items come out when due, {part['items']:,} items, random delays, keys in random order"
    show_rows(title, ["", *OPERATIONS, "bytes an item"], rows_of(part, Ours.name, OPERATIONS), console)
    for note in part["left_out"]:
        console.print(note, style="yellow")
