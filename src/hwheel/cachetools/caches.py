"""TTLCache and TLRUCache: caches whose entries expire."""

import time
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from reprlib import recursive_repr
from typing import Any, Self, TypeVar

from hwheel.containers import MISSING, each, is_equal, repr_of, shared_timer
from hwheel.timers.base import BaseTimer, check_runs_here
from hwheel_core import CacheCore, CacheTimer

_K = TypeVar("_K")
_V = TypeVar("_V")


class _TimedCache(CacheCore[_K, _V], MutableMapping[_K, _V]):
    """The base class of TTLCache and TLRUCache."""

    def _begin(self, maxsize: float, span: Any, timer: Callable[[], Any]) -> None:
        owner = getattr(timer, "__self__", None)
        if isinstance(owner, BaseTimer):
            check_runs_here(owner, "a cache")
        else:
            owner = shared_timer("expiring")
        base = TTLCache if isinstance(self, TTLCache) else TLRUCache
        self._set_up(base, maxsize, span, CacheTimer(timer), owner)

    def __iter__(self) -> Iterator[_K]:
        return each(self._columns()[0])

    def values(self) -> ValuesView[_V]:
        """Return a view of the values. Iteration counts as a use of each entry, and skips entries that have left."""
        return _Values(self)

    def items(self) -> ItemsView[_K, _V]:
        """Return a view of the ``(key, value)`` pairs, as ``values()`` does."""
        return _Items(self)

    def keys(self) -> KeysView[_K]:
        """Return a view of the keys."""
        return KeysView(self)

    def update(self, other: Any = (), /, **values: Any) -> None:
        """Set the pairs of a mapping or an iterable, and the keywords, as ``dict.update()`` does."""
        # Looking up each key of another cache could fail, because entries expire.
        super().update(other.items() if isinstance(other, _TimedCache) else other, **values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        count = 0
        for key, value in self.items():
            if not is_equal(other.get(key, MISSING), value):
                return False
            count += 1
        return count == len(other)

    __hash__ = None  # type: ignore[assignment]

    @recursive_repr()
    def __repr__(self) -> str:
        keys, values = self._columns()
        pairs = repr_of(zip(each(keys), each(values), strict=True))
        return f"{type(self).__name__}({pairs}, maxsize={self.maxsize!r}, currsize={self.currsize!r})"

    def __copy__(self) -> Self:
        copied: Self = _blank(type(self))
        copied.__setstate__((self.__dict__, self._state()))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return _blank, (type(self),), (self.__dict__, self._state())

    def __setstate__(self, state: tuple[dict[str, Any], tuple[Any, ...]]) -> None:
        attributes, (maxsize, span, timer, entries, keys_by_use) = state
        self.__dict__.update(attributes)
        self._begin(maxsize, span, timer)
        self._restore(entries, keys_by_use)


def _blank(cls: type[_TimedCache[Any, Any]]) -> Any:
    return cls.__new__(cls)


class TTLCache(_TimedCache[_K, _V]):
    """A ``cachetools.TTLCache`` whose entries leave memory when they expire.

    All entries have the same time to live. A full cache evicts the entry that was least recently set or looked up.
    Subclasses may override ``__missing__()``, ``popitem()``, which evicts, ``expire()``, which removes
    expired entries, ``getsizeof()``, and the methods for single keys.

    Args:
        maxsize: The maximum sum of the sizes of all entries. ``math.inf``: unlimited.
        ttl: Time to live, in seconds with the default timer; else anything that can be added to the time.
        timer: A function that returns the time. With the default, and with the ``time`` method of a
            ``SystemTimer`` or ``ManualTimer``, entries leave memory at their deadline. With any other
            function, they leave at the next operation that changes or counts the entries.
        getsizeof: A function that returns the size of a value, a number. Default: each entry has the size 1.

    Raises:
        ValueError: ``maxsize`` is negative. Setting a value that is larger than ``maxsize`` raises this, too.

    Thread-safe; the caller needs no lock.

    >>> from hwheel import ManualTimer
    >>> from hwheel.cachetools import TTLCache
    >>> timer = ManualTimer()
    >>> cache = TTLCache(maxsize=2, ttl=30, timer=timer.time)
    >>> cache["ada"], cache["bob"] = "tea", "jam"
    >>> cache["ada"]
    'tea'
    >>> cache["cy"] = "rum"
    >>> list(cache)
    ['ada', 'cy']
    >>> timer.advance(30)
    >>> len(cache)
    0
    """

    __module__ = "hwheel.cachetools"

    def __init__(
        self,
        maxsize: float,
        ttl: Any,
        timer: Callable[[], Any] = time.monotonic,
        getsizeof: Callable[[_V], float] | None = None,
    ) -> None:
        if getsizeof is not None:
            self.getsizeof = getsizeof  # type: ignore[assignment, method-assign]
        self._begin(maxsize, ttl, timer)

    @property
    def ttl(self) -> Any:
        """The time to live of the entries."""
        return self._span


class TLRUCache(_TimedCache[_K, _V]):
    """A ``cachetools.TLRUCache``, whose entries have deadlines of their own and leave memory when they expire.

    Args:
        maxsize: As for ``TTLCache``.
        ttu: Called with a new key, its value, and the time; returns the deadline. A deadline that has passed already
            removes the key.
        timer: As for ``TTLCache``.
        getsizeof: As for ``TTLCache``.

    Raises:
        ValueError: ``maxsize`` is negative. Setting a value that is larger than ``maxsize`` raises this, too.

    Thread-safe; the caller needs no lock. ``ttu`` may run in several threads at once.

    >>> from hwheel import ManualTimer
    >>> from hwheel.cachetools import TLRUCache
    >>> timer = ManualTimer()
    >>> cache = TLRUCache(100, ttu=lambda key, value, now: now + len(value), timer=timer.time)
    >>> cache["ada"], cache["bob"] = "tea", "pineapple"
    >>> timer.advance(5)
    >>> list(cache)
    ['bob']
    """

    __module__ = "hwheel.cachetools"

    def __init__(
        self,
        maxsize: float,
        ttu: Callable[[_K, _V, Any], Any],
        timer: Callable[[], Any] = time.monotonic,
        getsizeof: Callable[[_V], float] | None = None,
    ) -> None:
        if getsizeof is not None:
            self.getsizeof = getsizeof  # type: ignore[assignment, method-assign]
        self._begin(maxsize, ttu, timer)

    @property
    def ttu(self) -> Callable[[_K, _V, Any], Any]:
        """The function that computes deadlines."""
        return self._span  # type: ignore[no-any-return]


class _Values(ValuesView[_V]):
    __slots__ = ()
    _mapping: _TimedCache[Any, _V]

    def __iter__(self) -> Iterator[_V]:
        for _, value in self._mapping.items():
            yield value

    def __contains__(self, value: object) -> bool:
        return any(other is value or other == value for other in self)


class _Items(ItemsView[_K, _V]):
    __slots__ = ()
    _mapping: _TimedCache[_K, _V]

    def __iter__(self) -> Iterator[tuple[_K, _V]]:
        for key in self._mapping:
            value: Any = self._mapping.get(key, MISSING)
            if value is not MISSING:
                yield key, value
