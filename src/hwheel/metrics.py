"""Prometheus: the counters of timers and purgatories, as `prometheus_client` collects them. Needs `hwheel[metrics]`.

>>> from hwheel import ManualTimer
>>> from hwheel.metrics import TimerCollector
>>> from prometheus_client import CollectorRegistry, generate_latest
>>> registry = CollectorRegistry()
>>> timer = ManualTimer("requests")
>>> registry.register(TimerCollector(timer))
>>> task = timer.call_later(1, print)
>>> print(generate_latest(registry).decode().splitlines()[2])
hwheel_timer_added_total{timer="requests"} 1.0
"""

from collections.abc import Iterator, Mapping
from typing import Any

from hwheel.extras import needed_by
from hwheel.purgatory import DelayedOperationPurgatory, PurgatoryStats
from hwheel.timers.base import BaseTimer
from hwheel_core import TimerStats

with needed_by("hwheel.metrics", "metrics"):
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector

__all__ = ["PurgatoryCollector", "TimerCollector"]

_TIMER_COUNTERS = {
    "added": "Timers that were added.",
    "expired": "Timers that were handed out to be run.",
    "missed": "Of these, timers that were not run, because they were later than their max_lateness.",
    "cancelled": "Timers that were cancelled in time.",
    "cascaded": "How often an entry moved down a level of the wheel.",
    "wakeups": "How often the reaper woke up.",
}
_TIMER_GAUGES = {"pending": "Timers that wait.", "levels": "Levels of the wheel."}
_PURGATORY_COUNTERS = {
    "completed": "Operations that were completed, by whatever.",
    "expired": "Operations that their timeout completed.",
    "purged": "Entries of completed operations that a purge took off the watch lists.",
}
_PURGATORY_GAUGES = {
    "watched": "Entries in the watch lists.",
    "delayed": "Operations whose timeout is to come.",
}


class TimerCollector(Collector):
    """TimerCollector(*timers)

    A collector of `stats()` of timers, to be registered: `prometheus_client.REGISTRY.register(TimerCollector(timer))`.
    Each timer is a value of the label "timer", by its name; so the names must differ. Lateness is given in seconds,
    with the label "quantile" 0.5, 0.99 and 1 (the maximum).

    Holds on to the timers until it is unregistered.
    """

    def __init__(self, *timers: BaseTimer) -> None:
        self._timers = _by_name(timers, BaseTimer)

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client asks for: the counters at this moment."""
        return timer_families({name: timer.stats() for name, timer in self._timers.items()})


class PurgatoryCollector(Collector):
    """PurgatoryCollector(*purgatories)

    A collector of `stats()` of purgatories; as TimerCollector, with the label "purgatory".

    >>> from hwheel.metrics import PurgatoryCollector
    >>> from hwheel.purgatory import DelayedOperationPurgatory
    >>> with DelayedOperationPurgatory("fetch") as purgatory:
    ...     [family.name for family in PurgatoryCollector(purgatory).collect()][3:]
    ['hwheel_purgatory_watched', 'hwheel_purgatory_delayed']
    """

    def __init__(self, *purgatories: DelayedOperationPurgatory[Any]) -> None:
        self._purgatories = _by_name(purgatories, DelayedOperationPurgatory)

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client asks for: the counters at this moment."""
        return purgatory_families({name: purgatory.stats() for name, purgatory in self._purgatories.items()})


def timer_families(stats: Mapping[str, TimerStats]) -> Iterator[Metric]:
    """What Prometheus is told of timers, by the names that they have there."""
    yield from _families("timer", _TIMER_COUNTERS, _TIMER_GAUGES, stats)
    lateness = GaugeMetricFamily(
        "hwheel_timer_lateness_seconds",
        "How long after its deadline a timer was handed out, since the timer was made.",
        labels=["timer", "quantile"],
    )
    for name, counters in stats.items():
        for quantile, late_ms in zip(("0.5", "0.99", "1"), counters.lateness, strict=True):
            lateness.add_metric([_label(name), quantile], late_ms / 1000)
    yield lateness


def purgatory_families(stats: Mapping[str, PurgatoryStats]) -> Iterator[Metric]:
    """The same of purgatories."""
    return _families("purgatory", _PURGATORY_COUNTERS, _PURGATORY_GAUGES, stats)


def _label(name: str) -> str:
    """The name, as far as it is text: what is no character, and cannot be sent, is shown by its number."""
    return name.encode("utf-8", "backslashreplace").decode()


def _by_name(sources: tuple[Any, ...], kind: type[Any]) -> dict[str, Any]:
    by_name: dict[str, Any] = {}
    for source in sources:
        if not isinstance(source, kind):
            raise TypeError(f"a {kind.__name__} is wanted, not {type(source).__name__}")
        if source.name in by_name:
            raise ValueError(f"two of them are called {source.name!r}")
        by_name[source.name] = source
    return by_name


def _families(
    label: str, counters: dict[str, str], gauges: dict[str, str], stats: Mapping[str, Any]
) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """A family for each counter, with a value for each source."""
    for kind, descriptions in ((CounterMetricFamily, counters), (GaugeMetricFamily, gauges)):
        for counter, description in descriptions.items():
            family = kind(f"hwheel_{label}_{counter}", description, labels=[label])
            for name, values in stats.items():
                family.add_metric([_label(name)], getattr(values, counter))
            yield family
