"""ExpiringDict beside its peers: set, get, touch, memory, and the expiry of all entries at once."""

import threading
import time
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console

from containers.compared import bytes_each, measure_operations, processor_ns, rows_of
from hwheel import ExpiringDict, ManualTimer
from hwheel.cachetools import TTLCache
from lib.figures import median_and_range, show_rows
from lib.machine import installed, isolated
from lib.settings import Settings

TTL_S = 3600.0
OPERATIONS = ("set a new key", "get", "touch", "set again")
EXPIRY = {"took_ms": "all out, ms", "longest_look_ms": "longest get(), ms", "longest_computed_ms": "of it expiring, ms"}


class Cache:
    """A dict with room for `most` entries that live for an hour.

    expire: Let the hour pass, and remove expired entries; None if the dict cannot do this.
    locked_get: A look-up that is safe with several threads.
    """

    name: str
    module: str | None = None
    entries: Any
    expire: Callable[[], object] | None = None

    def locked_get(self, key: object) -> object:
        return self.entries.get(key)


class Ours(Cache):
    name = "hwheel.ExpiringDict"

    def __init__(self, most: int) -> None:
        self.timer = ManualTimer()
        self.entries = ExpiringDict[Any, Any](TTL_S, maxsize=most, timer=self.timer)
        self.expire = lambda: self.timer.advance(2 * TTL_S)


class OursForCachetools(Cache):
    name = "hwheel.cachetools.TTLCache"

    def __init__(self, most: int) -> None:
        self.timer = ManualTimer()
        self.entries = TTLCache[Any, Any](most, TTL_S, self.timer.time)
        self.expire = lambda: self.timer.advance(2 * TTL_S)


class OfCachetools(Cache):
    module = "cachetools"
    name = "cachetools.TTLCache"

    def __init__(self, most: int) -> None:
        import cachetools

        self.now = 0.0
        self.lock = threading.Lock()  # as its documentation requires for threads
        self.entries = cachetools.TTLCache(most, TTL_S, timer=lambda: self.now)
        self.expire = self.expire_locked

    def expire_locked(self) -> None:
        self.now += 2 * TTL_S
        with self.lock:
            self.entries.expire()

    def locked_get(self, key: object) -> object:
        with self.lock:
            return self.entries.get(key)


class OfExpiringdict(Cache):
    module = "expiringdict"
    name = "expiringdict"

    def __init__(self, most: int) -> None:
        from expiringdict import ExpiringDict as Other

        self.entries = Other(max_len=most, max_age_seconds=TTL_S)


ALL: tuple[Any, ...] = (Ours, OursForCachetools, OfCachetools, OfExpiringdict)


def measure(settings: Settings, on_turn: Callable[[str], object]) -> dict[str, Any]:
    """Measure ns of processor time per operation in each round, bytes per entry, and the expiry of all entries.

    The expiry has three figures in ms: its duration, the longest get() of another thread, and the most processor time
    of the expiring thread between two calls of get(). Only the first two include the time of other processes.
    """
    makes, left_out = installed(ALL)
    entries, rounds = settings.container_entries, settings.rounds
    on_turn("operations")
    cells = measure_operations(makes, operations, entries, rounds)
    on_turn("memory and expiry")
    expiry = {make.name: [expire_all(make, entries) for _ in range(rounds)] for make in makes}
    return {
        "entries": entries,
        "cells": cells,
        "bytes": {make.name: isolated("containers.expiring", "bytes_of", make.name, entries) for make in makes},
        "expiry": {name: found for name, found in expiry.items() if None not in found},
        "left_out": left_out,
    }


def operations(make: Any, entries: int) -> dict[str, float]:
    """Measure ns per operation on keys in random order."""
    keys = [f"session-{i}" for i in range(entries)]
    in_random_order = [keys[i] for i in np.random.default_rng(5).permutation(entries)]
    cache = make(entries)
    held, get = cache.entries, cache.entries.get

    def set_new() -> None:
        for key in keys:
            held[key] = None

    def get_all() -> None:
        for key in in_random_order:
            get(key)

    def touch_all() -> None:
        touch = held.touch
        for key in in_random_order:
            touch(key)

    def set_again() -> None:
        for key in in_random_order:
            held[key] = 5

    works = (set_new, get_all, touch_all if make is Ours else set_again, set_again)
    return {what: processor_ns(work, entries) for what, work in zip(OPERATIONS, works, strict=True)}


def bytes_of(name: str, entries: int) -> float:
    """Measure bytes per entry without its key and value, in another process."""
    [make] = [make for make in installed(ALL)[0] if make.name == name]
    keys = [f"session-{i}" for i in range(entries)]
    cache = make(entries)

    def fill() -> None:
        for key in keys:
            cache.entries[key] = None

    return bytes_each(fill, entries)


def expire_all(make: Any, entries: int) -> dict[str, float] | None:
    """Let all entries expire at once while another thread calls get()."""
    cache = make(entries)
    if cache.expire is None:
        return None
    for i in range(entries):
        cache.entries[i] = None
    looks_ms, computed_ms, begun, over = array("d"), array("d"), threading.Event(), threading.Event()
    expiring = time.pthread_getcpuclockid(threading.get_ident())

    def look() -> None:
        begun.set()
        last, last_computed = time.perf_counter(), time.clock_gettime(expiring)
        while True:
            is_last = over.is_set()
            cache.locked_get(-1)
            # The time between two results, because this thread can also wait for the GIL in between.
            now, computed = time.perf_counter(), time.clock_gettime(expiring)
            looks_ms.append((now - last) * 1e3)
            computed_ms.append((computed - last_computed) * 1e3)
            last, last_computed = now, computed
            if is_last:
                return

    looker = threading.Thread(target=look)
    looker.start()
    begun.wait()
    time.sleep(0.01)
    before = len(looks_ms)
    begin = time.perf_counter()
    cache.expire()
    took_ms = (time.perf_counter() - begin) * 1e3
    over.set()
    looker.join()
    assert len(cache.entries) == 0
    longest = {"longest_look_ms": max(looks_ms[before:]), "longest_computed_ms": max(computed_ms[before:])}
    return {"took_ms": took_ms, **longest}


def show(part: dict[str, Any], console: Console) -> None:
    """Print a table of operations, and one of expiry."""
    title = f"dicts that forget, {part['entries']:,} entries, keys in random order"
    show_rows(title, ["", *OPERATIONS, "bytes an entry"], rows_of(part, Ours.name, OPERATIONS), console)
    rows = [
        [name, *(median_and_range([one[key] for one in found]) for key in EXPIRY)]
        for name, found in part["expiry"].items()
    ]
    show_rows("all of them expire at once, beside a thread that looks", ["", *EXPIRY.values()], rows, console)
    for note in part["left_out"]:
        console.print(note, style="yellow")
