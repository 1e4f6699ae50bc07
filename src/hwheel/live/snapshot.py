"""Snapshots of the timers and purgatories of this process, in the structure of /live.json."""

import contextlib
import itertools
import math
import operator
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hwheel.extras import needed_by
from hwheel.purgatory import DelayedOperationPurgatory
from hwheel.timers.base import BaseTimer
from hwheel.timers.lifecycle import followers
from hwheel.types import CallbackGroup
from hwheel.version import __version__

MAX_BARS = 60  # the most bars for the buckets of a level
MAX_CALLBACKS = 20  # the most callbacks of a timer
PAUSE_FACTOR = 200  # if all censuses together take a second, each is repeated after 200 seconds

if TYPE_CHECKING:
    from hwheel.asyncio.timers import WheelTimers

Source = BaseTimer | DelayedOperationPurgatory[Any]
_Source = TypeVar("_Source", BaseTimer, DelayedOperationPurgatory[Any], "WheelTimers")


class Sources:
    """Timers and purgatories by unique names, with weak references.

    Args:
        given: The sources. If empty, all SystemTimers and purgatories of the process at the time of each snapshot.
    """

    def __init__(self, given: Iterable[Source]) -> None:
        given = tuple(given)
        for source in given:
            if not isinstance(source, (BaseTimer, DelayedOperationPurgatory)):
                expected = "a SystemTimer, a ManualTimer, or a DelayedOperationPurgatory"
                raise TypeError(f"expected {expected}, got {type(source).__name__}")
        self._given = [weakref.ref(source) for source in given] or None
        self.censuses = Censuses()
        self.lock = threading.Lock()  # one snapshot at a time, so that many clients do not slow down the timers
        self._timer_names: Names[BaseTimer] = Names()
        self._purgatory_names: Names[DelayedOperationPurgatory[Any]] = Names()
        self._loop_names: Names[WheelTimers] = Names(lambda timers: type(timers.loop).__name__)

    def _open(self) -> list[Any]:
        found = followers() if self._given is None else [given() for given in self._given]
        return [source for source in found if source is not None and not getattr(source, "closed", True)]

    def timers(self) -> dict[str, BaseTimer]:
        """Return the open timers by name."""
        return self._timer_names.name([source for source in self._open() if isinstance(source, BaseTimer)])

    def purgatories(self) -> dict[str, DelayedOperationPurgatory[Any]]:
        """Return the open purgatories by name."""
        found = [source for source in self._open() if isinstance(source, DelayedOperationPurgatory)]
        return self._purgatory_names.name(found)

    def loops(self) -> dict[str, "WheelTimers"]:
        """Return the timers of the open event loops by name, unless the sources were given."""
        asyncio_timers = sys.modules.get("hwheel.asyncio.timers")
        if self._given is not None or asyncio_timers is None:
            return {}
        return self._loop_names.name(asyncio_timers.loop_timers())


class Names(Generic[_Source]):
    """Unique, permanent names: a source's own name, with a number if another source has it."""

    # Other threads can free a source at any time. Iterating a WeakKeyDictionary would fail then. Copying the values
    # of a dict and popping one are atomic.

    def __init__(self, name_of: Callable[[Any], str] = operator.attrgetter("name")) -> None:
        self._name_of = name_of
        self._lock = threading.Lock()  # two concurrent snapshots must give a source one name
        self._names: dict[weakref.ref[_Source], str] = {}

    def name(self, sources: Iterable[_Source]) -> dict[str, _Source]:
        """Return the sources by name, in order."""
        with self._lock:
            return self._named(sources)

    def _named(self, sources: Iterable[_Source]) -> dict[str, _Source]:
        named = {}
        taken = {*[*self._names.values()]}
        numbers: dict[str, Iterator[int]] = {}  # the untried numbers of each name
        for source in sources:
            name = self._names.get(weakref.ref(source))
            if name is None:
                own_name = name = self._name_of(source)
                while name in taken:
                    name = f"{own_name} #{next(numbers.setdefault(own_name, itertools.count(2)))}"
                self._names[weakref.ref(source, self._names.pop)] = name
                taken.add(name)
            named[name] = source
        return named


def metrics_of(sources: Sources) -> bytes:
    """Return the counters in Prometheus' text format. Raise MissingExtraError without prometheus_client."""
    with needed_by("/metrics", "metrics"):
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.core import Metric
        from prometheus_client.registry import Collector

        from hwheel.metrics import purgatory_families, timer_families

    timers = {name: timer.stats() for name, timer in sources.timers().items()}
    purgatories = {name: purgatory.stats() for name, purgatory in sources.purgatories().items()}

    class Once(Collector):
        def collect(self) -> Iterable[Metric]:
            yield from timer_families(timers)
            if purgatories:
                yield from purgatory_families(purgatories)

    registry = CollectorRegistry()
    registry.register(Once())
    return generate_latest(registry)


class Censuses:
    """The census of each timer, taken so seldom that all of them together need half a percent of a processor."""

    def __init__(self) -> None:
        self._taken: dict[weakref.ref[Any], tuple[float, float, list[CallbackGroup]]] = {}

    def of(self, timer: "BaseTimer | WheelTimers") -> tuple[float, list[CallbackGroup]]:
        """Return the age of the last census in seconds, and its groups. First take a new census if the last one is old.

        The caller holds the lock of the sources.
        """
        now = time.monotonic()
        key = weakref.ref(timer, self._forget)
        taken_at, _, groups = self._taken.get(key, (-math.inf, 0.0, []))
        if now - taken_at >= PAUSE_FACTOR * sum([cost_s for _, cost_s, _ in [*self._taken.values()]]):
            begin = time.thread_time()
            with contextlib.suppress(Exception):  # the timer's clock may be broken
                groups = timer.census()
            taken_at = now
            self._taken[key] = taken_at, time.thread_time() - begin, groups
        return now - taken_at, groups

    def _forget(self, gone: weakref.ref[Any]) -> None:
        self._taken.pop(gone, None)


def callbacks_of(censuses: Censuses, timer: "BaseTimer | WheelTimers") -> dict[str, Any]:
    """Return the largest groups of a timer's census. docs/live.md describes the names."""
    age_s, groups = censuses.of(timer)
    names = ("module", "qualname", "line", "owner", "pending", "share", "oldest_s", "nearest_s", "farthest_s")
    return {
        "census_age_s": age_s,
        "callbacks": [dict(zip(names, group, strict=True)) for group in groups[:MAX_CALLBACKS]],
    }


def timers_of(sources: Sources) -> dict[str, Any]:
    """Return the census of each timer and event loop: the callbacks of its pending timers."""
    with sources.lock:
        return {
            "pid": os.getpid(),
            "timers": _pending_of(sources.censuses, sources.timers()),
            "loops": _pending_of(sources.censuses, sources.loops()),
        }


def _pending_of(censuses: Censuses, timers: "Mapping[str, BaseTimer | WheelTimers]") -> list[dict[str, Any]]:
    return [{"name": name, "pending": len(timer), **callbacks_of(censuses, timer)} for name, timer in timers.items()]


def snapshot_of(sources: Sources) -> dict[str, Any]:
    """Return a snapshot. docs/live.md describes the names."""
    with sources.lock:
        return {
            "hwheel": __version__,
            "pid": os.getpid(),
            "program": program_name(),
            "time": time.monotonic(),
            "timers": [
                timer_snapshot(name, timer) | callbacks_of(sources.censuses, timer)
                for name, timer in sources.timers().items()
            ],
            "loops": _pending_of(sources.censuses, sources.loops()),
            "purgatories": [
                {"name": name, **purgatory.stats()._asdict()} for name, purgatory in sources.purgatories().items()
            ],
        }


def program_name() -> str:
    """Return the file or module that was run."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name not in ("", "__main__"):  # archives and directories have these names
        return f"-m {main.name.removesuffix('.__main__')}"
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"


def timer_snapshot(name: str, timer: BaseTimer) -> dict[str, Any]:
    """Return the snapshot of one timer."""
    counters, ready, ready_is_more, steps, levels = timer._occupancy(MAX_BARS)
    added, expired, cancelled, cascaded, wakeups, pending, _, missed, p50, p99, worst = counters
    return {
        "name": name,
        "kind": type(timer).__name__,
        "tick_ms": timer.tick_ms,
        "wheel_size": timer.wheel_size,
        "added": added,
        "expired": expired,
        "missed": missed,
        "cancelled": cancelled,
        "cascaded": cascaded,
        "wakeups": wakeups,
        "pending": pending,
        "ready": ready,
        "ready_is_more": ready_is_more,
        "lateness": {"p50_ms": p50, "p99_ms": p99, "max_ms": worst, "histogram_us": steps},
        "levels": [
            {
                "level": number,
                "tick_ms": tick_ms,
                "interval_ms": interval_ms,
                "filled": filled,
                "buckets_per_bar": buckets_per_bar,
                "bars": bars,
            }
            for number, (tick_ms, interval_ms, filled, buckets_per_bar, bars) in enumerate(levels, 1)
        ],
    }
