"""The metrics of `hwheel deliver` for Prometheus, and their server. Needs prometheus_client."""

import socket
from collections.abc import Iterator
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import MetricsHandler
from prometheus_client.registry import Collector

from hwheel.cli.common import CommandError
from hwheel.cli.deliver.counts import BATCH_EDGES_S, Counts


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
            ("dead_letters", "Dead letters: malformed rows and unreadable files.",
             counts.dead_letters),
        ):  # fmt: skip
            yield CounterMetricFamily(f"hwheel_deliver_{name}", description, value=value)
        for name, description, known in (
            ("pending", "Pending rows: messages, and duplicates and cancels that have not met their message yet.",
             counts.pending),
            ("lag_seconds", "Lag of the earliest message in the last batch, without messages that arrived late.",
             None if counts.lag_ms is None else counts.lag_ms / 1000),
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
        yield self.batch_seconds()

    def batch_seconds(self) -> HistogramMetricFamily:
        """Return the histogram of the durations of batches."""
        times = self.counts.batch_times
        so_far, buckets = 0, []
        for edge, count in zip((*map(str, BATCH_EDGES_S), "+Inf"), [*times.counts], strict=True):
            so_far += count
            buckets.append((edge, so_far))
        family = HistogramMetricFamily("hwheel_deliver_batch_seconds", "Durations of batches.")
        family.add_metric([], buckets, times.sum_s)
        return family


class Server(ThreadingTCPServer):
    """A server of metrics, which there are none until a collector is registered. It runs in a daemon thread.

    Raises:
        CommandError: The address cannot be used.
    """

    daemon_threads = True  # each request has a thread, which does not delay the exit of the program
    allow_reuse_address = True

    def __init__(self, host: str, port: int) -> None:
        self.registry = CollectorRegistry()
        try:
            self.address_family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            where: Any = address[:2]
            super().__init__(where, MetricsHandler.factory(self.registry))
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
