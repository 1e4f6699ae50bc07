"""ExpiringDict: a dict whose entries expire."""

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, MutableMapping, ValuesView
from reprlib import recursive_repr
from typing import Any, Never, Self, SupportsFloat, SupportsIndex, TypeVar

from hwheel.containers import MISSING, each, is_equal, repr_of, shared_timer
from hwheel.timers.base import BaseTimer, check_runs_here
from hwheel_core import ExpiringDictCore

_K = TypeVar("_K")
_V = TypeVar("_V")


class ExpiringDict(ExpiringDictCore[_K, _V], MutableMapping[_K, _V]):
    """A dict whose entries expire: caches, sessions, leases, recently seen ids.

    An entry is present until its deadline. Then the dict removes it and returns its memory, even if
    no one looks at the dict.

    Iteration, views, comparison, and copies see each entry that is present throughout exactly once,
    oldest first. Other threads run in between. If one of them sets, removes, or renews an entry, the
    result shows the entry as it was before or after the change. ``len()`` may briefly count entries that
    have just expired. Expiry neither hashes nor compares keys; otherwise keys work as in a dict.

    The garbage collector does not see the entries: a reference cycle through an entry is broken only
    when the entry expires or is removed. Dropping the last reference to a dict frees it at once,
    without calls of ``on_expire``. In the child of a fork the entries are present and expire, but
    ``on_expire`` receives only entries set in the child, unless the timer was created with
    ``fork="keep"``.

    Args:
        ttl: Default time to live in seconds; ``set(key, value, ttl=...)`` overrides it.
        maxsize: The maximum number of entries. Adding one more removes the least
            recently set or touched entry, without a call of ``on_expire``. None: unlimited.
        refresh: True: each lookup (``d[key]``, ``get()``, ``setdefault()``) renews the deadline, as
            ``touch()`` does.
        on_expire: Called on the timer's executor with a list of at most 2,048 expired
            ``(key, value)`` pairs, earliest deadline first. Not called for entries that are deleted,
            popped, replaced, or removed for ``maxsize``. Its exceptions go to the timer's
            ``on_error``.
        timer: A SystemTimer or ManualTimer, without a process pool as its executor; the dict never
            closes it and adds one task to it. None: a timer that all dicts of the process share, in
            which a slow ``on_expire`` delays the others.

    Raises:
        TypeError, ValueError, OverflowError: An argument has the wrong type or is out of range.
        TimerClosed: The timer is closed. ``set()`` and ``touch()`` raise this, too, once it is closed.

    Thread-safe.

    >>> from hwheel import ExpiringDict, ManualTimer
    >>> timer = ManualTimer()
    >>> sessions = ExpiringDict(30, timer=timer, on_expire=print)
    >>> sessions["ada"] = "tea"
    >>> sessions.set("bob", "jam", ttl=10)
    >>> timer.advance(10)
    [('bob', 'jam')]
    >>> sessions.touch("ada"), sessions.expires_in("ada"), dict(sessions)
    (True, 30.0, {'ada': 'tea'})
    """

    __slots__ = ("__weakref__",)
    __module__ = "hwheel"

    def __init__(
        self,
        ttl: float | SupportsFloat | SupportsIndex,
        *others: Never,
        maxsize: int | None = None,
        refresh: bool = False,
        on_expire: Callable[[list[tuple[_K, _V]]], object] | None = None,
        timer: BaseTimer | None = None,
    ) -> None:
        if others:
            raise TypeError(
                "ExpiringDict takes one positional argument, the ttl; in cachetools' order (maxsize, ttl), write "
                f"ExpiringDict({others[0]!r}, maxsize={ttl!r})"
            )
        check_runs_here(timer, "a dict")
        self._set_up(ttl, maxsize, refresh, on_expire, shared_timer("expiring") if timer is None else timer)

    def __iter__(self) -> Iterator[_K]:
        return each(self._columns()[0])

    def keys(self) -> KeysView[_K]:
        """Return a view of the keys. Each use of the view copies the keys first.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions["ada"] = "tea"
            >>> list(sessions.keys())
            ['ada']
        """
        return _Keys(self)

    def values(self) -> ValuesView[_V]:
        """Return a view of the values. Each use of the view copies the values first.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions["ada"] = "tea"
            >>> list(sessions.values())
            ['tea']
        """
        return _Values(self)

    def items(self) -> ItemsView[_K, _V]:
        """Return a view of the ``(key, value)`` pairs. Each use of the view copies the pairs first.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions["ada"] = "tea"
            >>> list(sessions.items())
            [('ada', 'tea')]
        """
        return _Items(self)

    def update(self, other: Any = (), /, **values: Any) -> None:
        """Set the pairs of a mapping or an iterable, and the keywords, as ``dict.update()`` does.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions.update({"ada": "tea"}, bob="jam")
            >>> len(sessions)
            2
        """
        # Looking up each key of another ExpiringDict could fail, because entries expire, and could renew them.
        super().update(iter(other.items()) if isinstance(other, ExpiringDict) else other, **values)

    def copy(self) -> "ExpiringDict[_K, _V]":
        """Return an ExpiringDict with the same settings, timer, and entries.

        Each entry keeps its deadline and its time to live. O(n). Thread-safe.

        Example:
            >>> from hwheel import ExpiringDict, ManualTimer
            >>> timer = ManualTimer()
            >>> sessions = ExpiringDict(30, timer=timer)
            >>> sessions["ada"] = "tea"
            >>> timer.advance(10)
            >>> sessions.copy().expires_in("ada")
            20.0
        """
        copied = self._empty_copy()
        for entry in self._each_entry():
            copied._set_entry(*entry)
        return copied

    __copy__ = copy

    def __or__(self, other: Mapping[_K, _V]) -> "ExpiringDict[_K, _V]":
        if not isinstance(other, Mapping):
            return NotImplemented
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Mapping[_K, _V]) -> "ExpiringDict[_K, _V]":
        if not isinstance(other, Mapping):
            return NotImplemented
        merged = self._empty_copy()
        merged.update(other)
        for entry in self._each_entry():
            merged._set_entry(*entry)
        return merged

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc]  # also pairs, as in dict
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        find: Callable[[Any, object], object]
        if isinstance(other, ExpiringDict):
            count, find = sum(1 for _ in other), other._peek
        elif isinstance(other, Mapping):
            count, find = len(other), other.get
        else:
            return NotImplemented
        keys, values = self._columns()
        return len(keys) == count and all(
            is_equal(find(key, MISSING), value) for key, value in zip(each(keys), each(values), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    @recursive_repr()
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {repr_of(self.items())}>"

    def _each_entry(self) -> Iterator[tuple[_K, _V, int, int]]:
        keys, values, expirations_ms, ttls_ms = self._columns(True)
        return zip(each(keys), each(values), each(expirations_ms), each(ttls_ms), strict=True)

    def _empty_copy(self) -> "ExpiringDict[_K, _V]":
        return ExpiringDict(
            self.ttl, maxsize=self.maxsize, refresh=self.refresh, on_expire=self.on_expire, timer=self.timer
        )


class _Keys(KeysView[_K]):
    __slots__ = ()


class _Values(ValuesView[_V]):
    __slots__ = ()
    _mapping: "ExpiringDict[Any, _V]"

    def __iter__(self) -> Iterator[_V]:
        return each(self._mapping._columns()[1])

    def __contains__(self, value: object) -> bool:
        return any(is_equal(other, value) for other in self)


class _Items(ItemsView[_K, _V]):
    __slots__ = ()
    _mapping: "ExpiringDict[_K, _V]"

    def __iter__(self) -> Iterator[tuple[_K, _V]]:
        keys, values = self._mapping._columns()
        return zip(each(keys), each(values), strict=True)
