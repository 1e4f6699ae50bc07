"""The counts of `hwheel deliver`: the line on the terminal, the metrics, and the dashboard."""

import json
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from hwheel.cli.deliver import counts as deliver_counts
from hwheel.cli.deliver.counts import BATCH_EDGES_S, Counts, Held, Progress
from hwheel.cli.main import main
from reports import batch, reported

DASHBOARD = Path(__file__).parents[2] / "docs" / "dashboards" / "hwheel_deliver.json"
PAGE = Path(__file__).parents[2] / "docs" / "prometheus.md"


@pytest.fixture
def no_waiting(monkeypatch):
    """Let each call of look() and show() take effect."""
    monkeypatch.setattr(deliver_counts, "LOOK_EVERY_S", 0)
    monkeypatch.setattr(deliver_counts, "LOG_EVERY_S", 0)


def test_the_line_on_the_terminal(no_waiting, monkeypatch, capsys):
    pytest.importorskip("pyspark")
    delivery = reported([batch(3, 1000), batch(4, 500)], out=1200, lag_ms=1234)
    counted = []
    counts = Counts(delivery, lambda: counted.append(1) or Held(7))
    progress = Progress(counts)
    monkeypatch.setattr(deliver_counts, "LOG_EVERY_S", 1000)
    progress.show()
    assert capsys.readouterr().err == "", "the interval has not passed"
    monkeypatch.setattr(deliver_counts, "LOG_EVERY_S", 0)
    counts.look()
    progress.show()
    assert capsys.readouterr().err == "in 1,500  out 1,200  pending 7  lag 1.2 s\n"
    delivery.messages.recentProgress.append(batch(5, 1))
    delivery.dead_sink.rows = 2
    delivery.sink.late_arrivals = 1234
    counts.look()
    progress.show()
    assert capsys.readouterr().err == "in 1,501  out 1,200  pending 7  lag 1.2 s  arrived late 1,234  malformed 2\n"
    assert len(counted) == 1, "pending rows are counted rarely"


def test_all_batches_are_counted_even_if_spark_keeps_only_100_reports(no_waiting):
    pytest.importorskip("pyspark")
    delivery = reported([])
    counts = Counts(delivery, lambda: Held(0))
    for number in range(300):
        delivery.messages.recentProgress = [*delivery.messages.recentProgress, batch(number, 10)][-100:]
        counts.look()
    assert (counts.rows_in, sum(counts.batch_times.counts)) == (3000, 300)


def scraped(counts):
    from hwheel.cli.deliver.metrics import DeliveryCollector, Server

    with Server("127.0.0.1", 0) as server:
        server.registry.register(DeliveryCollector(counts))
        with urllib.request.urlopen(server.url, timeout=30) as answer:
            return answer.read().decode()


def test_metrics_have_the_counts(no_waiting):
    pytest.importorskip("prometheus_client")
    pytest.importorskip("pyspark")
    batches = [batch(0, 600, took_ms=700), batch(1, 400, took_ms=400_000, sst=1000, memory=50)]
    counts = Counts(reported(batches, out=77, lag_ms=1500, dead=3, late=8), lambda: Held(923, 1.5, 3, 4))
    counts.look()
    lines = scraped(counts).splitlines()
    assert {
        "hwheel_deliver_in_total 1000.0",
        "hwheel_deliver_out_total 77.0",
        "hwheel_deliver_late_arrivals_total 8.0",
        'hwheel_deliver_dead_letters_total{code="no-id"} 3.0',
        "hwheel_deliver_pending 923.0",
        "hwheel_deliver_lag_seconds 1.5",
        'hwheel_deliver_state_bytes{where="disk"} 1000.0',
        'hwheel_deliver_state_bytes{where="memory"} 50.0',
        'hwheel_deliver_batch_seconds_bucket{le="0.5"} 0.0',
        'hwheel_deliver_batch_seconds_bucket{le="1.0"} 1.0',
        'hwheel_deliver_batch_seconds_bucket{le="300.0"} 1.0',
        'hwheel_deliver_batch_seconds_bucket{le="+Inf"} 2.0',
        "hwheel_deliver_batch_seconds_count 2.0",
        "hwheel_deliver_batch_seconds_sum 400.7",
        "hwheel_deliver_oldest_overdue_seconds 1.5",
        'hwheel_deliver_dropped_total{reason="duplicate"} 3.0',
        'hwheel_deliver_dropped_total{reason="cancelled"} 4.0',
        'hwheel_deliver_phase_seconds_total{phase="addBatch"} 400.698',
        'hwheel_deliver_lateness_seconds_bucket{le="0.1"} 1.0',
        'hwheel_deliver_lateness_seconds_bucket{le="+Inf"} 2.0',
        "hwheel_deliver_lateness_seconds_sum 0.3",
    } <= {*lines}
    assert [line for line in lines if line.startswith("hwheel_deliver_last_batch_timestamp_seconds ")]


def test_unknown_values_are_left_out_of_the_metrics(no_waiting):
    pytest.importorskip("prometheus_client")
    text = scraped(Counts(reported([]), lambda: Held(0)))
    assert "hwheel_deliver_in_total 0.0" in text.splitlines()
    for name in ("pending", "lag_seconds", "oldest_overdue_seconds", "last_batch_timestamp_seconds", "state_bytes"):
        assert not re.search(rf"^hwheel_deliver_{name}[ {{]", text, re.MULTILINE), name


def test_health(no_waiting, monkeypatch):
    """The job is healthy while it tends its queries."""
    pytest.importorskip("prometheus_client")
    pytest.importorskip("pyspark")
    from hwheel.cli.deliver.metrics import Server

    def status():
        try:
            with urllib.request.urlopen(server.url.replace("/metrics", "/health"), timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    counts = Counts(reported([]), lambda: Held(0))
    with Server("127.0.0.1", 0) as server:
        assert status() == (503, b"the job does not run\n"), "before the start"
        server.is_healthy = counts.is_healthy
        counts.look()
        assert status() == (200, b"ok\n")
        counts.last_look_s -= deliver_counts.HEALTHY_S
        assert status()[0] == 503
        counts.look()
        assert status()[0] == 200


def metric_names():
    """Return the names of all metrics, as Prometheus reads them."""
    batches = [batch(0, 1, sst=1)]
    counts = Counts(reported(batches, lag_ms=1), lambda: Held(0))
    counts.look()
    return {re.split("[ {]", line)[0] for line in scraped(counts).splitlines() if line.startswith("hwheel_")}


def test_the_dashboard_shows_every_metric_and_no_other(no_waiting):
    pytest.importorskip("prometheus_client")
    pytest.importorskip("pyspark")
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    shown = {name for expression in expressions for name in re.findall(r"hwheel_\w+", expression)}
    served_names = metric_names()
    assert shown <= served_names, shown - served_names
    families = {re.sub("_(bucket|count|sum)$", "", name) for name in served_names if not name.endswith("_created")}
    assert families == {re.sub("_(bucket|count|sum)$", "", name) for name in shown}
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {"${datasource}"}
    assert [one["name"] for one in dashboard["templating"]["list"]] == ["datasource", "instance"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for name in families:
        assert f"`{name}" in PAGE.read_text(), f"{name} is not on the page"


def test_an_occupied_port_is_reported_before_spark_starts(monkeypatch, capsys):
    pytest.importorskip("prometheus_client")
    pytest.importorskip("pyspark")
    from hwheel.spark.session import local

    monkeypatch.setattr(local, "make_session", lambda *settings, **more: pytest.fail("Spark was started"))
    places = ["--from", "in", "--to", "out", "--checkpoint", "state"]
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        assert main(["deliver", *places, "--metrics-port", str(port)]) == 2
    assert f"--metrics-port: cannot listen at 127.0.0.1:{port}" in capsys.readouterr().err


def test_missing_prometheus_client_is_reported_with_the_pip_command(monkeypatch, capsys):
    pytest.importorskip("pyspark")
    from hwheel import extras

    is_there = extras._is_there
    monkeypatch.setattr(extras, "_is_there", lambda module: module != "prometheus_client" and is_there(module))
    places = ["--from", "in", "--to", "out", "--checkpoint", "state"]
    assert main(["deliver", *places, "--metrics-port", "9464"]) == 2
    assert "needs prometheus_client, which is not installed: pip install 'hwheel[metrics]'" in capsys.readouterr().err


def test_edges_of_the_histogram_of_batches_are_ascending():
    assert [*BATCH_EDGES_S] == sorted({*BATCH_EDGES_S})
