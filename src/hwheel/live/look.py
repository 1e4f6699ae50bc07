"""What a look at the timers of this process shows, as JSON says it."""

import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from hwheel.extras import needed_by
from hwheel.purgatory import DelayedOperationPurgatory
from hwheel.timers.base import BaseTimer
from hwheel.timers.lifecycle import followers
from hwheel.version import __version__

COLUMNS = 60  # at most so many for the buckets of a level, whatever its size

Source = BaseTimer | DelayedOperationPurgatory[Any]
_Source = TypeVar("_Source", BaseTimer, DelayedOperationPurgatory[Any])


class Sources:
    """Timers and purgatories, held weakly, each with a name of its own.

    None given: all SystemTimers and purgatories of the process, at each look those that are there.
    """

    def __init__(self, given: Iterable[Source]) -> None:
        given = tuple(given)
        for source in given:
            if not isinstance(source, (BaseTimer, DelayedOperationPurgatory)):
                wanted = "a SystemTimer, a ManualTimer or a DelayedOperationPurgatory is wanted"
                raise TypeError(f"{wanted}, not {type(source).__name__}")
        self._given = [weakref.ref(source) for source in given] or None
        self._timer_names: Names[BaseTimer] = Names()
        self._purgatory_names: Names[DelayedOperationPurgatory[Any]] = Names()

    def _open(self) -> list[Any]:
        found = followers() if self._given is None else [given() for given in self._given]
        return [one for one in found if one is not None and not getattr(one, "closed", True)]

    def timers(self) -> dict[str, BaseTimer]:
        """The timers that are open, by name."""
        return self._timer_names.name([one for one in self._open() if isinstance(one, BaseTimer)])

    def purgatories(self) -> dict[str, DelayedOperationPurgatory[Any]]:
        """The purgatories that are open, by name."""
        return self._purgatory_names.name([one for one in self._open() if isinstance(one, DelayedOperationPurgatory)])


class Names(Generic[_Source]):
    """What each is called: by its own name, with a number if another has that. It stays the same at every look."""

    # No WeakKeyDictionary, because other threads may let go of a source while this goes through the names: to copy the
    # values of a dict, and to take one out, are single steps that no thread can divide.

    def __init__(self) -> None:
        self._lock = threading.Lock()  # so that two who look at once give one source one name
        self._names: dict[weakref.ref[_Source], str] = {}

    def name(self, sources: Iterable[_Source]) -> dict[str, _Source]:
        """{name: source}, in their order."""
        with self._lock:
            return self._named(sources)

    def _named(self, sources: Iterable[_Source]) -> dict[str, _Source]:
        named = {}
        taken = {*[*self._names.values()]}
        numbers: dict[str, Iterator[int]] = {}  # by name: what was not tried yet
        for source in sources:
            name = self._names.get(weakref.ref(source))
            if name is None:
                name = source.name
                while name in taken:
                    name = f"{source.name} #{next(numbers.setdefault(source.name, itertools.count(2)))}"
                self._names[weakref.ref(source, self._names.pop)] = name
                taken.add(name)
            named[name] = source
        return named


class Looker:
    """Looks for who asks. One look at a time; who asks while one is under way shares the next with all others that wait
    for it, so that many who look at once cost little more than one."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._lock = threading.Lock()
        self._last: tuple[float, dict[str, Any]] = (-1.0, {})  # when it began, and what was seen

    def look(self) -> dict[str, Any]:
        """What there is to see; it began after this was called."""
        asked = time.monotonic()
        with self._lock:
            if self._last[0] < asked:
                began = time.monotonic()
                self._last = began, look_at(self.sources, began)
            return self._last[1]

    def metrics(self) -> bytes:
        """The same counters in Prometheus' text form. MissingExtraError: prometheus_client is not installed."""
        with needed_by("/metrics", "metrics"):
            from prometheus_client import CollectorRegistry, generate_latest
            from prometheus_client.core import Metric
            from prometheus_client.registry import Collector

            from hwheel.metrics import purgatory_families, timer_families

        timers = {name: timer.stats() for name, timer in self.sources.timers().items()}
        purgatories = {name: purgatory.stats() for name, purgatory in self.sources.purgatories().items()}

        class Once(Collector):
            def collect(self) -> Iterable[Metric]:
                yield from timer_families(timers)
                if purgatories:
                    yield from purgatory_families(purgatories)

        registry = CollectorRegistry()
        registry.register(Once())
        return generate_latest(registry)


def look_at(sources: Sources, now: float) -> dict[str, Any]:
    """All of it. docs/live.md says what each name means."""
    return {
        "hwheel": __version__,
        "pid": os.getpid(),
        "program": program(),
        "time": now,
        "timers": [timer_seen(name, timer) for name, timer in sources.timers().items()],
        "purgatories": [
            {"name": name, **purgatory.stats()._asdict()} for name, purgatory in sources.purgatories().items()
        ],
    }


def program() -> str:
    """What a person knows the program by: the file or module that was run."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name not in ("", "__main__"):  # so are archives and directories called that are run
        return f"-m {main.name.removesuffix('.__main__')}"
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"


def timer_seen(name: str, timer: BaseTimer) -> dict[str, Any]:
    """One timer."""
    counters, ready, ready_is_more, steps, levels = timer._look(COLUMNS)
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
