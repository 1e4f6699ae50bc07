"""Dicts whose entries expire behind one interface: ours, and installed peers."""

import threading
from collections.abc import Callable
from typing import Any

from hwheel import ExpiringDict, ManualTimer
from lib.machine import installed

TTL_S = 3600.0


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


class OfCachetools(Cache):
    module = "cachetools"
    of = "TTLCache"
    name = "cachetools.TTLCache"

    def __init__(self, most: int) -> None:
        import cachetools

        self.now = 0.0
        self.lock = threading.Lock()  # as its documentation requires for threads
        ttl: Any = TTL_S if self.of == "TTLCache" else lambda key, value, now: now + TTL_S
        self.entries = getattr(cachetools, self.of)(most, ttl, timer=lambda: self.now)
        self.expire = self.expire_locked

    def expire_locked(self) -> None:
        self.now += 2 * TTL_S
        with self.lock:
            self.entries.expire()

    def locked_get(self, key: object) -> object:
        with self.lock:
            return self.entries.get(key)


class OfTlru(OfCachetools):
    of = "TLRUCache"
    name = "cachetools.TLRUCache"


class OfExpiringdict(Cache):
    module = "expiringdict"
    name = "expiringdict"

    def __init__(self, most: int) -> None:
        from expiringdict import ExpiringDict as Other

        self.entries = Other(max_len=most, max_age_seconds=TTL_S)


ALL: list[Any] = [Ours, OfCachetools, OfTlru, OfExpiringdict]


def available() -> tuple[list[Any], list[str]]:
    """Return the installed ones, and a note for each of the others."""
    return installed(ALL)
