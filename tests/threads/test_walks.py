"""Walks over all entries of a container in slices: what they see, and that they keep no reference."""

import copy
import math
import threading
import weakref

import pytest

from hwheel import ExpiringDict, ManualTimer
from hwheel.cachetools import TLRUCache, TTLCache
from sampling import at_least

STAYING = range(3000)
COMING = range(-27_000, 0)  # so many that the table shrinks and grows
THINGS = 20_000  # more than fit into a slice


def deadline(key, value, now):
    return now + 60


def no_time():
    return 0


def one(value):
    return 1


KINDS = {
    "dict": lambda: ExpiringDict(60, timer=ManualTimer()),
    "TTLCache": lambda: TTLCache(math.inf, 60, ManualTimer().time),
    "TLRUCache": lambda: TLRUCache(math.inf, deadline, ManualTimer().time),
    "TTLCache, own timer": lambda: TTLCache(math.inf, 60, no_time, one),
    "TLRUCache, own timer": lambda: TLRUCache(math.inf, deadline, no_time),
}
WALKS = {
    "list": list,
    "copy": lambda entries: list(copy.copy(entries)),
}


class Thing:
    pass


@pytest.mark.parametrize("kind", at_least(5, KINDS))
@pytest.mark.usefixtures("many_switches", "the_engine_runs")
def test_a_walk_sees_each_entry_that_stays_once_while_others_come_and_go(kind):
    entries, done = KINDS[kind](), threading.Event()
    entries.update((key, 0) for key in [*COMING, *STAYING])

    def come_and_go():
        while True:
            for change in (lambda key: entries.pop(key, None), lambda key: entries.setdefault(key, 0)):
                for key in COMING:
                    if done.is_set():
                        return
                    change(key)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for walk in [*WALKS.values()] * 5:
            seen = walk(entries)
            assert {*STAYING} <= {*seen} and len({*seen}) == len(seen)
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("kind", at_least(5, KINDS))
@pytest.mark.usefixtures("the_engine_runs")
def test_walks_and_the_release_of_all_entries_keep_no_reference(kind):
    for release in ("clear", "del"):
        entries = KINDS[kind]()
        values = [Thing() for _ in range(THINGS)]
        ends = [weakref.ref(value) for value in values]
        entries.update(enumerate(values))
        twin = copy.copy(entries)
        assert entries == twin and [*entries.values()] == [*twin.values()] == values
        assert repr(entries).count("Thing") == THINGS
        if release == "clear":
            entries.clear()
            twin.clear()
        values = entries = twin = None
        assert not any(end() for end in ends)
