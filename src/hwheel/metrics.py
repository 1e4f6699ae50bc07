"""Prometheus collectors for the counters of timers and purgatories. Needs ``hwheel[metrics]``.

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
    "added": "Number of timers added.",
    "expired": "Number of timers that expired.",
    "missed": "Number of expired timers that did not run because they were later than their max_lateness.",
    "cancelled": "Number of timers cancelled before they expired.",
    "cascaded": "Number of moves of a timer to a finer level of the wheel.",
    "wakeups": "Number of wake-ups of the reaper thread.",
}
_TIMER_GAUGES = {"pending": "Number of pending timers.", "levels": "Number of levels of the wheel."}
_PURGATORY_COUNTERS = {
    "completed": "Number of operations completed, by their condition, by their timeout, or directly.",
    "expired": "Number of operations completed by their timeout.",
    "purged": "Number of entries of completed operations that purges removed from the watch lists.",
}
_PURGATORY_GAUGES = {
    "watched": "Number of entries in the watch lists.",
    "delayed": "Number of operations with a pending timeout.",
}


class TimerCollector(Collector):
    """TimerCollector(*timers)

    Collect the ``stats()`` of timers: ``prometheus_client.REGISTRY.register(TimerCollector(timer))``.

    The label "timer" is the name of the timer. Lateness is in seconds, with the label "quantile" 0.5, 0.99, or 1 (the
    maximum). The collector keeps a reference to the timers.

    Args:
        timers: The timers, with different names.

    Raises:
        TypeError: An argument is not a timer.
        ValueError: Two timers have the same name.
    """

    def __init__(self, *timers: BaseTimer) -> None:
        self._timers = _by_name(timers, BaseTimer)

    def collect(self) -> Iterator[Metric]:
        """Yield the current counters. Called by prometheus_client.

        Example:
            >>> from hwheel import ManualTimer
            >>> from hwheel.metrics import TimerCollector
            >>> timer = ManualTimer("requests")
            >>> added = next(TimerCollector(timer).collect())
            >>> added.name, added.samples[0].value
            ('hwheel_timer_added', 0)
        """
        return timer_families({name: timer.stats() for name, timer in self._timers.items()})


class PurgatoryCollector(Collector):
    """PurgatoryCollector(*purgatories)

    Collect the ``stats()`` of purgatories, as ``TimerCollector`` does for timers, with the label "purgatory".

    >>> from hwheel.metrics import PurgatoryCollector
    >>> from hwheel.purgatory import DelayedOperationPurgatory
    >>> with DelayedOperationPurgatory("fetch") as purgatory:
    ...     [family.name for family in PurgatoryCollector(purgatory).collect()][3:]
    ['hwheel_purgatory_watched', 'hwheel_purgatory_delayed']
    """

    def __init__(self, *purgatories: DelayedOperationPurgatory[Any]) -> None:
        self._purgatories = _by_name(purgatories, DelayedOperationPurgatory)

    def collect(self) -> Iterator[Metric]:
        """Yield the current counters. Called by prometheus_client.

        Example:
            >>> from hwheel.metrics import PurgatoryCollector
            >>> from hwheel.purgatory import DelayedOperationPurgatory
            >>> with DelayedOperationPurgatory("fetch") as purgatory:
            ...     completed = next(PurgatoryCollector(purgatory).collect())
            >>> completed.name, completed.samples[0].value
            ('hwheel_purgatory_completed', 0)
        """
        return purgatory_families({name: purgatory.stats() for name, purgatory in self._purgatories.items()})


def timer_families(stats: Mapping[str, TimerStats]) -> Iterator[Metric]:
    """Yield the metric families of timers. The keys of ``stats`` are their names."""
    yield from _families("timer", _TIMER_COUNTERS, _TIMER_GAUGES, stats)
    lateness = GaugeMetricFamily(
        "hwheel_timer_lateness_seconds",
        "Time from the deadline of a timer to its expiry, since the timer was created.",
        labels=["timer", "quantile"],
    )
    for name, counters in stats.items():
        for quantile, late_ms in zip(("0.5", "0.99", "1"), counters.lateness, strict=True):
            lateness.add_metric([_label(name), quantile], late_ms / 1000)
    yield lateness


def purgatory_families(stats: Mapping[str, PurgatoryStats]) -> Iterator[Metric]:
    """Yield the metric families of purgatories. The keys of ``stats`` are their names."""
    return _families("purgatory", _PURGATORY_COUNTERS, _PURGATORY_GAUGES, stats)


def _label(name: str) -> str:
    """Escape the characters of a name that UTF-8 cannot encode."""
    return name.encode("utf-8", "backslashreplace").decode()


def _by_name(sources: tuple[Any, ...], kind: type[Any]) -> dict[str, Any]:
    by_name: dict[str, Any] = {}
    for source in sources:
        if not isinstance(source, kind):
            raise TypeError(f"expected a {kind.__name__}, got {type(source).__name__}")
        if source.name in by_name:
            raise ValueError(f"names must be different, but two are {source.name!r}")
        by_name[source.name] = source
    return by_name


def _families(
    label: str, counters: dict[str, str], gauges: dict[str, str], stats: Mapping[str, Any]
) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """Yield a family for each counter and gauge, with a value for each name in ``stats``."""
    for kind, descriptions in ((CounterMetricFamily, counters), (GaugeMetricFamily, gauges)):
        for counter, description in descriptions.items():
            family = kind(f"hwheel_{label}_{counter}", description, labels=[label])
            for name, values in stats.items():
                family.add_metric([_label(name)], getattr(values, counter))
            yield family
