"""ExpiringDict: a dict whose entries expire by themselves."""

from collections.abc import Callable, ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from typing import Any, SupportsFloat, SupportsIndex, TypeVar

from hwheel.containers.shared_timer import shared_timer
from hwheel.timers.base import BaseTimer, check_runs_here
from hwheel_core import ExpiringDictCore

_K = TypeVar("_K")
_V = TypeVar("_V")


class ExpiringDict(ExpiringDictCore[_K, _V], MutableMapping[_K, _V]):
    """A dict whose entries expire by themselves: caches, sessions, leases, what was seen lately.

    An entry is there until its deadline, and not after; then it is taken out, and its memory given
    back, whether anybody looks or not.

    ttl: how long an entry lives, in seconds; `set(key, value, ttl=...)` gives one its own.
    maxsize: how many entries there may be. One more pushes out the oldest, that is the one which
        was set or touched the longest time ago, and on_expire does not hear of it. None: any number.
    refresh: each look-up (`d[key]`, get(), setdefault()) sets its key back, as touch() does.
    on_expire: called with a list of (key, value), oldest deadline first, on the timer's executor;
        at most 2,048 a call. What is deleted, popped, replaced or pushed out has not expired. What
        it raises goes to the timer's on_error; no entry is lost by it.
    timer: a SystemTimer or a ManualTimer, which is left open. It sees one task, whatever the dict
        holds. None: one that all such dicts of the process share; a slow on_expire makes that of
        others late. Its executor cannot be one of processes.

    Iterating, keys(), values(), items() and a comparison see the entries of one moment, the oldest
    first, and never fail because others come or go. len() may count, for a moment, what has expired
    and is about to be taken out.

    In a forked child the entries are there, too, and expire; on_expire hears of those alone that
    were set there, unless the timer keeps what was pending (fork="keep"). Where a signal handler
    interrupts, nothing is halved. Keys are hashed and compared as by a dict, with no lock held; an
    expiry does neither. Every method may be called from any thread.

    The garbage collector does not see the entries: a million cost it nothing, and a cycle of
    references that leads through one is broken when that expires, and not before. A dict that
    nobody uses any more is freed at once, with its entries; on_expire does not hear of them.

    TypeError, ValueError, OverflowError: an argument is of the wrong type or out of range.
    TimerClosed: the timer is closed; nothing can be set or touched any more.

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
        *,
        maxsize: int | None = None,
        refresh: bool = False,
        on_expire: Callable[[list[tuple[_K, _V]]], object] | None = None,
        timer: BaseTimer | None = None,
    ) -> None:
        check_runs_here(timer, "a dict")
        self._set_up(ttl, maxsize, refresh, on_expire, shared_timer("expiring") if timer is None else timer)

    def keys(self) -> KeysView[_K]:
        """The keys: a view, each look at which sees one moment."""
        return _Keys(self)

    def values(self) -> ValuesView[_V]:
        """The values: a view, each look at which sees one moment."""
        return _Values(self)

    def items(self) -> ItemsView[_K, _V]:
        """The pairs of key and value: a view, each look at which sees one moment."""
        return _Items(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ExpiringDict):
            return dict(self._pairs()) == dict(other._pairs())
        return dict(self._pairs()) == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {dict(self._pairs())!r}>"


class _Keys(KeysView[_K]):
    __slots__ = ()


class _Values(ValuesView[_V]):
    __slots__ = ()
    _mapping: "ExpiringDict[Any, _V]"

    def __iter__(self) -> Iterator[_V]:
        return iter(self._mapping._values())

    def __contains__(self, value: object) -> bool:
        return value in self._mapping._values()


class _Items(ItemsView[_K, _V]):
    __slots__ = ()
    _mapping: "ExpiringDict[_K, _V]"

    def __iter__(self) -> Iterator[tuple[_K, _V]]:
        return iter(self._mapping._pairs())
