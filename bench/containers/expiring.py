"""ExpiringDict beside its peers: set, get, touch, memory, and the expiry of all entries at once."""

import gc
import threading
import time
import tracemalloc
from array import array
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console

from containers.caches import available
from core.rounds import timed
from lib.cell import Cell, ratios
from lib.isolated import isolated
from lib.table import show_rows, three

OURS = "hwheel.ExpiringDict"
OPERATIONS = ("set a new key", "get", "touch", "set again")


def measure(entries: int, rounds: int, on_turn: Callable[[str], object] = lambda turn: None) -> dict[str, Any]:
    """Measure ns of processor time per operation in each round, bytes per entry, and the expiry of all entries.

    For the expiry: its duration, the longest get() of another thread, and the most processor time of the expiring
    thread between two calls of get(), in ms. Only the first two include the time of other processes.
    """
    makes, left_out = available()
    cells = {(what, make.name): Cell(what, make.name, entries) for what in OPERATIONS for make in makes}
    for _ in range(rounds):
        for make in makes:
            on_turn(f"containers, {make.name}")
            for what, ns in operations(make, entries).items():
                cells[what, make.name].ns.append(ns)
    bytes_an_entry = {make.name: isolated("containers.expiring", "bytes_of", make.name, entries) for make in makes}
    expiry = {make.name: [expire_all(make, entries) for _ in range(rounds)] for make in makes}
    return {
        "entries": entries,
        "cells": [asdict(cell) for cell in cells.values()],
        "bytes": bytes_an_entry,
        "expiry": {name: found for name, found in expiry.items() if None not in found},
        "left_out": left_out,
    }


def operations(make: Any, entries: int) -> dict[str, float]:
    """Measure ns per operation on keys in random order."""
    keys = [f"session-{i}" for i in range(entries)]
    chance = np.random.default_rng(5)
    in_random_order = [keys[i] for i in chance.permutation(entries)]
    cache = make(entries)
    held, get = cache.entries, cache.entries.get

    def set_new() -> None:
        for key in keys:
            held[key] = None

    def get_all() -> None:
        for key in in_random_order:
            get(key)

    def touch_all() -> None:
        if make.name == OURS:
            touch = held.touch
            for key in in_random_order:
                touch(key)
        else:  # there is no other way
            for key in in_random_order:
                held[key] = None

    def set_again() -> None:
        for key in in_random_order:
            held[key] = 5

    functions = (set_new, get_all, touch_all, set_again)
    gc.collect()
    return {
        what: timed(work, time.process_time) * 1e9 / entries for what, work in zip(OPERATIONS, functions, strict=True)
    }


def bytes_of(name: str, entries: int) -> float:
    """Measure bytes per entry without its key and value, in another process."""
    [make] = [make for make in available()[0] if make.name == name]
    keys = [f"session-{i}" for i in range(entries)]
    cache = make(entries)
    tracemalloc.start()
    for key in keys:
        cache.entries[key] = None
    taken = tracemalloc.get_traced_memory()[0] / entries
    tracemalloc.stop()
    return taken


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
    took_ms = timed(cache.expire) * 1e3
    over.set()
    looker.join()
    assert len(cache.entries) == 0
    longest = {"longest_look_ms": max(looks_ms[before:]), "longest_computed_ms": max(computed_ms[before:])}
    return {"took_ms": took_ms, **longest}


def show(part: dict[str, Any], console: Console) -> None:
    """Print a table of operations, and one of expiry and memory."""
    cells = {(cell["operation"], cell["implementation"]): Cell(**cell) for cell in part["cells"]}
    names = list(part["bytes"])
    rows = []
    for name in names:
        ours = name == OURS
        figures = [
            cells[what, name].ns if ours else ratios(cells[what, name], cells[what, OURS]) for what in OPERATIONS
        ]
        rows.append([f"{name}, ns" if ours else f"{name}, times that", *map(three, figures)])
    show_rows(f"dicts that forget, {part['entries']:,} entries, keys in random order", ["", *OPERATIONS], rows, console)
    rows = []
    for name in names:
        found = part["expiry"].get(name)
        shown = ["–", "–", "–"]
        if found:
            figures_of = ("took_ms", "longest_look_ms", "longest_computed_ms")
            shown = [three([one[what] for one in found]) for what in figures_of]
        rows.append([name, part["bytes"][name], *shown])
    headers = ["", "bytes an entry", "all out, ms", "longest get() meanwhile, ms", "of it expiring, ms"]
    show_rows("the same, memory and expiry of all at once, beside a thread that looks", headers, rows, console)
    for note in part["left_out"]:
        console.print(note, style="yellow")
