"""WatchLists: for each key the operations that wait for it."""

import threading
from collections.abc import Hashable, Iterable
from typing import Any

from hwheel.purgatory.watcher import Watcher

SHARDS = 64
"""How many locks the keys share; a power of two."""

ROOMY_BYTES = 256
"""A dict that takes more than this for each thing in it has room for several times as much."""

_MASK = SHARDS - 1


class WatchLists:
    """The watch lists, by key; which of the locks guards a key's list is said by the key's hash.

    A list is a dict without values: in the order in which the operations came, and left in O(1). Empty ones are
        dropped.

    Locks. A shard's lock guards the dict of its keys and their lists. It is held for a few dict operations, never while
    an operation is looked at, and no other lock is taken under it. The hash and the comparison of keys do run under it,
    and so may, between any two lines of Python, a finaliser or a signal handler; because these may come back to the
    same shard, the lock is reentrant.

    Thread-safety: every method may be called from any thread.
    """

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        self._shards: tuple[tuple[threading.RLock, dict[Hashable, dict[Watcher, None]]], ...] = tuple(
            (threading.RLock(), {}) for _ in range(SHARDS)
        )

    def add(self, watcher: Watcher) -> None:
        """Puts a watcher at the end of the lists of all of its keys."""
        shards = self._shards
        for key in watcher.keys:
            lock, lists = shards[hash(key) & _MASK]
            lock.acquire()          # half the time of `with`, three times an operation
            try:
                if key in lists:
                    lists[key][watcher] = None
                else:
                    lists[key] = {watcher: None}
            finally:
                lock.release()

    def remove(self, key: Hashable, watchers: Iterable[Watcher]) -> int:
        """Takes watchers off a key's list. Returns how many of them were there."""
        lock, lists = self._shards[hash(key) & _MASK]
        with lock:
            watching = lists.get(key)
            if watching is None:
                return 0
            before = len(watching)
            for watcher in watchers:
                watching.pop(watcher, None)
            if watching:
                _give_back_room(watching)
            else:
                del lists[key]
                _give_back_room(lists)
            return before - len(watching)

    def watching(self, key: Hashable) -> list[Watcher]:
        """Who is on a key's list now."""
        lock, lists = self._shards[hash(key) & _MASK]
        with lock:
            watching = lists.get(key)
            return [] if watching is None else [*watching]

    def take(self, key: Hashable) -> list[Watcher]:
        """Removes a key's list and returns who was on it."""
        lock, lists = self._shards[hash(key) & _MASK]
        with lock:
            taken = [*lists.pop(key, ())]
            _give_back_room(lists)
            return taken

    def take_all(self) -> list[Watcher]:
        """Removes all lists and returns who was on them, each once."""
        taken: dict[Watcher, None] = {}
        for lock, lists in self._shards:
            with lock:
                for watching in lists.values():
                    taken.update(watching)
                lists.clear()
        return [*taken]

    def all_unlocked(self) -> list[Watcher]:
        """Who is on any list: in a forked child, where a lock may have been the property of a thread that is not
        there."""
        return [watcher for _, lists in self._shards for watching in lists.values() for watcher in watching]

    def count(self) -> int:
        """The lengths of all lists together. O(keys)."""
        total = 0
        for lock, lists in self._shards:
            with lock:
                total += sum(map(len, lists.values()))
        return total


def _give_back_room(table: dict[Any, Any]) -> None:
    """A dict keeps the room of what has left it. When that is most of it, it is filled anew: amortised O(1)."""
    if table.__sizeof__() > ROOMY_BYTES * (len(table) + 8):
        kept = table.copy()
        table.clear()
        table.update(kept)
