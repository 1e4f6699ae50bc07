"""The metrics of `hwheel deliver` for Prometheus, and their server. Needs prometheus_client."""

import socket
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import MetricsHandler
from prometheus_client.registry import Collector

from hwheel.cli.common import CommandError
from hwheel.cli.deliver.counts import BATCH_EDGES_S, Counts
from hwheel.spark.deliver.sink import LATENESS_EDGES_S


class DeliveryCollector(Collector):
    """The counts of a delivery for prometheus_client. Unknown values are left out."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts

    def collect(self) -> Iterator[Metric]:
        """Return the current counts."""
        counts = self.counts
        for name, description, value in (
            ("in", "Input rows: messages, duplicates, cancels, and malformed rows.", counts.rows_in),
            ("out", "Delivered messages.", counts.rows_out),
            ("late_arrivals", "Delivered messages that arrived after their due time.", counts.late_arrivals),
        ):  # fmt: skip
            yield CounterMetricFamily(f"hwheel_deliver_{name}", description, value=value)
        letters = CounterMetricFamily(
            "hwheel_deliver_dead_letters", "Dead letters: malformed rows and unreadable files.", labels=["code"]
        )
        for code, count in counts.letters_by_code.items():
            letters.add_metric([code], count)
        yield letters
        for name, description, known in (
            ("pending", "Pending rows: messages, and duplicates and cancels that have not met their message yet.",
             counts.pending),
            ("lag_seconds", "Lag of the earliest message in the last batch, without messages that arrived late.",
             None if counts.lag_ms is None else counts.lag_ms / 1000),
            ("oldest_overdue_seconds", "Time since the earliest pending row was due, or 0.",
             None if counts.held is None else counts.held.overdue_s),
            ("last_batch_timestamp_seconds", "Time at which the last batch completed, in epoch seconds.",
             counts.last_batch_at_s),
        ):  # fmt: skip
            family = GaugeMetricFamily(f"hwheel_deliver_{name}", description)
            if known is not None:
                family.add_metric([], known)
            yield family
        state = GaugeMetricFamily("hwheel_deliver_state_bytes", "Size of RocksDB on all executors.", labels=["where"])
        for where, size in counts.state_bytes.items():
            state.add_metric([where], size)
        yield state
        yield self.dropped()
        phases = CounterMetricFamily("hwheel_deliver_phase_seconds", "Time in a phase of batches.", labels=["phase"])
        for phase, took_ms in [*counts.phases_ms.items()]:
            phases.add_metric([phase], took_ms / 1000)
        yield phases
        times = counts.batch_times
        yield histogram("batch", "Durations of batches.", BATCH_EDGES_S, [*accumulate(times.counts)], times.sum_s)
        text = "Time from due to the start of the batch that delivered a message, without late arrivals."
        sink = counts.delivery.sink
        yield histogram("lateness", text, LATENESS_EDGES_S, sink.lateness, sink.lateness_sum_s)

    def dropped(self) -> CounterMetricFamily:
        """Return the number of dropped messages."""
        text = "Messages that met a duplicate or a cancel when they were due, since the start of the checkpoint."
        family = CounterMetricFamily("hwheel_deliver_dropped", text, labels=["reason"])
        if (held := self.counts.held) is not None:
            family.add_metric(["duplicate"], held.duplicates)
            family.add_metric(["cancelled"], held.cancelled)
        return family


def histogram(
    name: str, description: str, edges_s: Sequence[float], so_far: Sequence[int], sum_s: float
) -> HistogramMetricFamily:
    """Return a histogram.

    Args:
        so_far: The number of values up to each edge, and of all values.
    """
    family = HistogramMetricFamily(f"hwheel_deliver_{name}_seconds", description)
    family.add_metric([], [*zip((*map(str, edges_s), "+Inf"), so_far, strict=True)], sum_s)
    return family


class Handler(MetricsHandler):
    """Serves the metrics, and at /health whether the job runs: status 200 or 503."""

    def do_GET(self) -> None:
        if self.path != "/health":
            super().do_GET()
            return
        assert isinstance(self.server, Server)
        is_healthy = self.server.is_healthy()
        body = b"ok\n" if is_healthy else b"the job does not run\n"
        self.send_response(200 if is_healthy else 503)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingTCPServer):
    """A server of metrics, which runs in a daemon thread. It has no metrics until a collector is registered.

    Raises:
        CommandError: The address cannot be used.
    """

    daemon_threads = True  # each request has a thread, which does not delay the exit of the program
    allow_reuse_address = True

    def __init__(self, host: str, port: int) -> None:
        self.registry = CollectorRegistry()
        self.is_healthy: Callable[[], bool] = lambda: False
        try:
            self.address_family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            where: Any = address[:2]
            super().__init__(where, Handler.factory(self.registry))
        except OSError as error:
            raise CommandError(f"--metrics-port: cannot listen at {shown(host)}:{port}: {error}") from None
        Thread(target=self.serve_forever, name="metrics", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{shown(str(self.server_address[0]))}:{self.server_address[1]}/metrics"

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()
        self.server_close()


def shown(host: str) -> str:
    """Return a host in the form of a URL."""
    return f"[{host}]" if ":" in host else host
