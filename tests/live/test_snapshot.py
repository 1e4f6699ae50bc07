"""The contents of a snapshot, and concurrent snapshots."""

import gc
import json
import sys
import threading
from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

import hwheel.live
from hwheel import ManualTimer, SystemTimer
from hwheel.live.snapshot import Names, Sources
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from servers import http_request, live_snapshot

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
COUNTERS = ("added", "expired", "missed", "cancelled", "cascaded", "wakeups", "pending")


@pytest.fixture(params=["socket", "port"])
def serve(request, short_path):
    """Return a function that calls hwheel.live.serve(). The servers are closed after the test."""
    servers = []

    def start(*timers):
        servers.append(hwheel.live.serve(str(short_path / "live.sock") if request.param == "socket" else 0, *timers))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def names(address):
    return [timer["name"] for timer in live_snapshot(address)["timers"]]


def test_a_snapshot_agrees_with_stats(serve):
    requests, sessions = ManualTimer("requests"), ManualTimer("sessions", tick_ms=10, wheel_size=64)
    server = serve(requests, sessions)
    for i in range(1, 201):
        requests.call_later(i / 10, int)
    requests.call_later(5000, int).cancel()
    requests.call_many(array("q", [5, 600, 70_000]), len)
    sessions.call_later(3, int)
    requests.advance(12.3)
    snapshot = live_snapshot(server.address)
    assert snapshot["hwheel"] == hwheel.__version__ and snapshot["purgatories"] == []
    assert [timer["name"] for timer in snapshot["timers"]] == ["requests", "sessions"]
    for timer, shown in zip([requests, sessions], snapshot["timers"], strict=True):
        stats = timer.stats()
        assert {name: shown[name] for name in COUNTERS} == {name: getattr(stats, name) for name in COUNTERS}
        late = shown["lateness"]
        assert (late["p50_ms"], late["p99_ms"], late["max_ms"]) == stats.lateness
        assert sum(count for _, count in late["histogram_us"]) == stats.expired
        assert (shown["kind"], shown["tick_ms"], shown["wheel_size"]) == (
            "ManualTimer",
            timer.tick_ms,
            timer.wheel_size,
        )
        assert [level["level"] for level in shown["levels"]] == [*range(1, stats.levels + 1)]
        assert sum(sum(level["bars"]) for level in shown["levels"]) == stats.pending == len(timer)
        for level in shown["levels"]:
            assert level["interval_ms"] == level["tick_ms"] * timer.wheel_size
            assert 0 < len(level["bars"]) <= 60 and level["filled"] >= sum(map(bool, level["bars"]))


def test_snapshots_have_increasing_times(serve):
    server = serve(ManualTimer())
    first = live_snapshot(server.address)["time"]
    assert live_snapshot(server.address)["time"] > first


def test_freed_and_closed_timers_are_not_shown(serve):
    gone, closed, stays = ManualTimer("gone"), SystemTimer("closed"), ManualTimer("stays")
    server = serve(gone, closed, stays)
    assert names(server.address) == ["gone", "closed", "stays"]
    del gone
    gc.collect()
    closed.close()
    assert names(server.address) == ["stays"]
    del stays
    gc.collect()
    assert names(server.address) == []
    assert http_request(server.address, "/").status == 200


def test_timers_with_the_same_name_get_permanent_numbers(serve):
    timers = [ManualTimer("a"), ManualTimer("a"), ManualTimer("a #2"), ManualTimer("a")]
    server = serve(*timers)
    assert names(server.address) == ["a", "a #2", "a #2 #2", "a #3"]
    del timers[0]
    gc.collect()
    assert names(server.address) == ["a #2", "a #2 #2", "a #3"]


def test_naming_many_timers_with_the_same_name_is_linear():
    tried = []

    class Name(str):
        def __format__(self, spec):
            tried.append(self)
            return str(self)

    timers = [ManualTimer(Name("timer")) for _ in range(1000)]
    sources = Sources(timers)
    assert [*sources.timers()] == ["timer", *(f"timer #{number}" for number in range(2, 1001))]
    assert [*sources.timers().values()] == timers and len(tried) < 5000


def test_by_default_all_timers_of_the_process_are_shown(serve, make_timer):
    class Order(DelayedOperation):
        def try_complete(self):
            return False

    server = serve()
    make_timer("first made")
    assert "first made" in names(server.address)
    make_timer("made later")
    with DelayedOperationPurgatory("orders") as orders:
        orders.try_complete_else_watch(Order(60_000), ["tea", "jam"])
        snapshot = live_snapshot(server.address)
        assert {"first made", "made later", "orders"} <= {timer["name"] for timer in snapshot["timers"]}
        assert {"name": "orders", **orders.stats()._asdict()} in snapshot["purgatories"]
        assert orders.stats().watched == 2
    assert "orders" not in names(server.address)


def test_names_with_special_characters(serve):
    name = '</script><b>"\u2028 \ud800 \x1b[31m'
    assert names(serve(ManualTimer(name)).address) == [name]


def test_metrics_equal_those_of_the_collector(serve):
    client = pytest.importorskip("prometheus_client")
    from hwheel.metrics import TimerCollector

    timer, other = ManualTimer("requests"), ManualTimer("requests")
    server = serve(timer, other)
    timer.call_later(1, int)
    timer.advance(1)
    answer = http_request(server.address, "/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    registry = client.CollectorRegistry()
    registry.register(TimerCollector(timer))
    mine = [line for line in answer.body.decode().splitlines() if '"requests #2"' not in line]
    assert mine == client.generate_latest(registry).decode().splitlines()
    assert 'hwheel_timer_pending{timer="requests #2"} 0.0' in answer.body.decode()
    with DelayedOperationPurgatory("orders", timer) as orders:
        text = http_request(serve_again(server, orders), "/metrics").body.decode()
    assert 'hwheel_purgatory_delayed{purgatory="orders"} 0.0' in text


def test_metrics_escape_names_that_utf_8_cannot_encode(serve):
    parser = pytest.importorskip("prometheus_client.parser")
    timers = [ManualTimer(name) for name in ('\ud800 "a"\n\\', "requests")]
    text = http_request(serve(*timers).address, "/metrics").body.decode()
    added = next(
        family for family in parser.text_string_to_metric_families(text) if family.name == "hwheel_timer_added"
    )
    assert [sample.labels["timer"] for sample in added.samples] == ['\\ud800 "a"\n\\', "requests"]


def serve_again(server, *timers):
    """Replace the server by another one at the same address, and return the address."""
    address = server.address
    server.close()
    server.__init__(address, *timers)
    return server.address


def test_metrics_without_prometheus_client_name_the_extra(serve, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = http_request(serve(ManualTimer()).address, "/metrics")
    assert answer.status == 501
    assert answer.body.decode().startswith("/metrics needs prometheus_client, which is not installed: pip install")


def test_snapshots_while_timers_work_and_close(serve, many_switches):
    server = serve()
    stop = threading.Event()

    def churn(number):
        while not stop.is_set():
            with SystemTimer(f"churn {number}", executor="inline") as timer:
                tasks = [timer.call_later(60, int) for _ in range(300)]
                for task in tasks[::2]:
                    task.cancel()

    with ThreadPoolExecutor(8) as pool:
        churning = [pool.submit(churn, number) for number in range(2)]
        taken = [
            snapshot for _ in range(10) for snapshot in pool.map(lambda _: live_snapshot(server.address), range(6))
        ]
        stop.set()
        for one in churning:
            one.result()
    assert len(taken) == 60
    for snapshot in taken:
        for timer in snapshot["timers"]:
            if timer["name"].startswith("churn"):
                # Tasks that close() returned are not counted in these three.
                assert timer["added"] >= timer["expired"] + timer["cancelled"] + timer["pending"]
    assert json.dumps(taken[-1])


def test_concurrent_snapshots_give_timers_different_names():
    named = Names()
    threads = []

    class Second:
        name = "timer"

    class First(Second):
        @property
        def name(self):
            if not threads:
                threads.append(threading.Thread(target=named.name, args=[sources[1:]]))
                threads[0].start()
                threads[0].join(0.1)  # long enough if the lock were missing
            return "timer"

    sources = [First(), Second()]
    named.name(sources[:1])
    threads[0].join()
    assert {*named.name(sources)} == {"timer", "timer #2"}
    sources.clear()
    gc.collect()
    assert named.name([]) == {} and not named._names
