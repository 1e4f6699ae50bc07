"""stats() and its export through prometheus_client."""

import doctest

import pytest

from hwheel import ManualTimer
from hwheel.purgatory import DelayedOperationPurgatory

prometheus_client = pytest.importorskip("prometheus_client")
metrics = pytest.importorskip("hwheel.metrics")


@pytest.fixture
def registry():
    return prometheus_client.CollectorRegistry()


def test_stats_are_a_snapshot_of_plain_numbers(purgatory, flagged, timer):
    for delay_ms in (10, 20, 30):
        purgatory.try_complete_else_watch(flagged(delay_ms), ["a", "b"])
    before = purgatory.stats()
    timer.advance(0.02)
    assert before == (6, 3, 0, 0, 0)
    assert purgatory.stats()._asdict() == {"watched": 6, "delayed": 1, "completed": 2, "expired": 2, "purged": 0}
    purgatory.purge()
    assert purgatory.stats() == (2, 1, 2, 2, 4)
    assert all(type(number) is int for number in purgatory.stats())
    with pytest.raises(AttributeError):
        before.watched = 1


def test_purgatory_collector_exports_current_values(registry, purgatory, timer, flagged):
    registry.register(metrics.PurgatoryCollector(purgatory, DelayedOperationPurgatory("other", timer)))
    for delay_ms in (10, 20, 30):
        purgatory.try_complete_else_watch(flagged(delay_ms), ["a", "b"])
    timer.advance(0.02)
    purgatory.purge()
    purgatory.try_complete_else_watch(flagged(completable=True), ["a", "b"])

    def value(name, purgatory="test"):
        return registry.get_sample_value(f"hwheel_purgatory_{name}", {"purgatory": purgatory})

    assert (value("watched"), value("delayed")) == (2, 1)
    assert (value("completed_total"), value("expired_total"), value("purged_total")) == (3, 2, 4)
    assert value("completed_total", "other") == 0
    timer.advance(0.01)
    assert (value("watched"), value("delayed"), value("expired_total")) == (2, 0, 3)


def test_timer_collector_exports_lateness_in_seconds(registry):
    with ManualTimer("requests", never_early=False) as timer:
        registry.register(metrics.TimerCollector(timer))
        for delay in (0.010, 0.020, 3600):
            timer.call_later(delay, int)
        timer.call_later(5, int).cancel()
        timer.call_at(-1, int, max_lateness=0.5)
        timer.advance(0.015)

        def value(name, **labels):
            return registry.get_sample_value(f"hwheel_timer_{name}", {"timer": "requests", **labels})

        stats = timer.stats()
        for name in ("added", "expired", "missed", "cancelled", "cascaded", "wakeups"):
            assert value(f"{name}_total") == getattr(stats, name)
        assert (value("added_total"), value("expired_total"), value("cancelled_total")) == (5, 2, 1)
        assert value("missed_total") == 1
        assert (value("pending"), value("levels")) == (2, stats.levels)
        for quantile, late_ms in zip(("0.5", "0.99", "1"), stats.lateness, strict=True):
            assert value("lateness_seconds", quantile=quantile) == late_ms / 1000


def test_collector_refuses_duplicate_names_and_wrong_types(timer, purgatory):
    with pytest.raises(ValueError, match="'manual'"):
        metrics.TimerCollector(timer, timer)
    with pytest.raises(TypeError, match="BaseTimer"):
        metrics.TimerCollector(purgatory)
    with pytest.raises(TypeError, match="DelayedOperationPurgatory"):
        metrics.PurgatoryCollector(timer)


def test_docstring_examples_of_metrics():
    assert doctest.testmod(metrics).attempted > 5
    assert doctest.testmod(metrics).failed == 0
