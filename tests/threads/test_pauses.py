"""Operations over all entries let other threads run in between."""

import copy
import sys
import threading
import time

import pytest

from hwheel import DelayQueue, ExpiringDict, ManualTimer
from hwheel.cachetools import TLRUCache, TTLCache
from sampling import at_least

ENTRIES = 100_000


@pytest.fixture
def no_switches():
    """Let threads take turns only where the GIL is released."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(usual)


def timer_of_entries():
    timer = ManualTimer()
    for number in range(ENTRIES):
        timer.call_later(60 + number % 100, print, number)
    return timer


def group_of_entries():
    group = ManualTimer().group()
    for number in range(ENTRIES):
        group.call_later(60, print, number)
    return group


def dict_of_entries(on_expire=None):
    entries = ExpiringDict(60, timer=ManualTimer(), on_expire=on_expire)
    for number in range(ENTRIES):
        entries[number] = str(number)
    return entries


def queue_of_entries(spread=100, count=ENTRIES):
    queue = DelayQueue(timer=ManualTimer())
    for number in range(count):
        queue.put(str(number), 3600 + number % spread)
    return queue


def cache_of_entries():
    cache = TTLCache(ENTRIES, 60, ManualTimer().time)
    cache.update((number, str(number)) for number in range(ENTRIES))
    return cache


def tlru_cache_of_entries():
    cache = TLRUCache(ENTRIES, lambda key, value, now: now + 60 + key % 7, ManualTimer().time)
    cache.update((number, str(number)) for number in range(ENTRIES))
    return cache


def free(make):
    """Return what a row needs to measure the release of the last reference."""
    return lambda: [make()], lambda holder: holder.clear()


OPERATIONS = {
    "timer.pending": (timer_of_entries, lambda timer: timer.pending()),
    "timer.census": (timer_of_entries, lambda timer: timer.census()),
    "timer.dump": (timer_of_entries, lambda timer: timer.dump()),
    "timer.load": (lambda: timer_of_entries().dump(), lambda data: ManualTimer().load(data)),
    "timer.close": (timer_of_entries, lambda timer: timer.close()),
    "group.cancel": (group_of_entries, lambda group: group.cancel()),
    "group.close": (group_of_entries, lambda group: group.close()),
    "dict.clear": (dict_of_entries, lambda entries: entries.clear()),
    "dict first": (dict_of_entries, lambda entries: next(iter(entries))),
    "dict expiry": (dict_of_entries, lambda entries: entries.timer.advance(60)),
    "dict reports": (lambda: dict_of_entries(len), lambda entries: entries.timer.advance(60)),
    "dict freed": free(dict_of_entries),
    "cache first": (cache_of_entries, lambda cache: next(iter(cache))),
    "cache copy": (cache_of_entries, copy.copy),
    "cache repr": (cache_of_entries, repr),
    "cache freed": free(cache_of_entries),
    "TLRU cache first": (tlru_cache_of_entries, lambda cache: next(iter(cache))),
    "TLRU cache expire": (tlru_cache_of_entries, lambda cache: cache.expire(1000)),
    "TLRU cache copy": (tlru_cache_of_entries, copy.copy),
    "queue freed": free(queue_of_entries),
    "queue.drain": (queue_of_entries, lambda queue: queue.drain()),
    "queue.shutdown": (queue_of_entries, lambda queue: queue.shutdown(True)),
    "queue.peek": (lambda: queue_of_entries(1, 10 * ENTRIES), lambda queue: queue.peek()),
}


ATTEMPTS = 10  # the system may not run the other thread while the operation lets it


def looks_during(prepare, operation):
    """Return how often another thread runs during an operation."""
    subject, looks, done = prepare(), [], threading.Event()

    def look():
        while not done.is_set():
            looks.append(None)
            time.sleep(0)

    thread = threading.Thread(target=look)
    thread.start()
    while not looks:
        time.sleep(0.001)
    before = len(looks)
    operation(subject)
    during = len(looks) - before
    done.set()
    thread.join()
    return during


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="threads do not take turns")
@pytest.mark.usefixtures("no_switches")
@pytest.mark.parametrize("name", at_least(23, OPERATIONS))
def test_other_threads_run_during_an_operation_over_all_entries(name):
    assert any(looks_during(*OPERATIONS[name]) > 1 for _ in range(ATTEMPTS))
