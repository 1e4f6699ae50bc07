"""What Prometheus is told of `hwheel deliver`, and the server that tells it. Needs prometheus_client."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
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
    """The counts of a delivery, as prometheus_client collects them. What is not known yet is left out."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client asks for: the counts at this moment."""
        counts = self.counts
        for name, description, value in (
            ("in", "Rows that were read: messages, repeats, cancels and malformed ones.", counts.rows_in),
            ("out", "Messages that were delivered.", counts.rows_out),
            ("dead_letters", "Malformed rows and unreadable files that were written to the dead letters.",
             counts.dead_letters),
        ):  # fmt: skip
            yield CounterMetricFamily(f"hwheel_deliver_{name}", description, value=value)
        for name, description, known in (
            ("pending", "Rows that are held: messages, and repeats and cancels that have not met theirs yet.",
             counts.pending),
            ("lag_seconds", "How long after its due time the earliest message of the last batch with any was written.",
             None if counts.lag_ms is None else counts.lag_ms / 1000),
            ("last_batch_timestamp_seconds", "When the last batch was seen to be completed, since 1970.",
             counts.last_batch_at_s),
        ):  # fmt: skip
            family = GaugeMetricFamily(f"hwheel_deliver_{name}", description)
            if known is not None:
                family.add_metric([], known)
            yield family
        state = GaugeMetricFamily("hwheel_deliver_state_bytes", "RocksDB's, on all executors.", labels=["where"])
        for where, size in counts.state_bytes.items():
            state.add_metric([where], size)
        yield state
        yield self.batch_seconds()

    def batch_seconds(self) -> HistogramMetricFamily:
        """How long batches took."""
        times = self.counts.batch_times
        so_far, buckets = 0, []
        for edge, count in zip((*map(str, BATCH_EDGES_S), "+Inf"), [*times.counts], strict=True):
            so_far += count
            buckets.append((edge, so_far))
        family = HistogramMetricFamily("hwheel_deliver_batch_seconds", "How long the batches took.")
        family.add_metric([], buckets, times.sum_s)
        return family


class Server(ThreadingTCPServer):
    """Has its address from the beginning, so that one that is taken is said at once; listens when there is something
    to tell. A thread a request; none of them keeps the program from ending."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str, port: int) -> None:
        self.registry = CollectorRegistry()
        with address_errors(host, port):
            self.address_family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            where: Any = address[:2]
            super().__init__(where, MetricsHandler.factory(self.registry), bind_and_activate=False)
            try:
                self.server_bind()
            except OSError:
                self.server_close()
                raise


def shown(host: str) -> str:
    """A host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


@contextmanager
def address_errors(host: str, port: int) -> Iterator[None]:
    """Errors of an address that cannot be had are the command's."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"--metrics-port: nobody can listen at {shown(host)}:{port}: {error}") from None


@contextmanager
def served(server: Server, counts: Counts) -> Iterator[str]:
    """Serves them until the end of the block; gives the URL."""
    host, port = str(server.server_address[0]), server.server_address[1]
    server.registry.register(DeliveryCollector(counts))
    with address_errors(host, port):  # another program may have had it at the same moment
        server.server_activate()
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{shown(host)}:{port}/metrics"
    finally:
        server.shutdown()
        thread.join()
