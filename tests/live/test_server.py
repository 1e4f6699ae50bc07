"""The live server: access, concurrent clients, close(), and the file of a socket."""

import contextlib
import http.client
import os
import socket
import stat
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

import hwheel.live
from hwheel import ManualTimer
from hwheel.live.http_handler import Handler
from hwheel.live.server import MAX_CONNECTIONS
from servers import HTTP_TIMEOUT_S, http_request, live_snapshot, open_connection

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


@pytest.fixture
def path(short_path):
    return str(short_path / "live.sock")


@pytest.fixture(params=["socket", "port"])
def address(request, path):
    return path if request.param == "socket" else 0


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("hwheel-live")]


def descriptors():
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


class PurePathOfBytes:
    def __fspath__(self):
        return b"/tmp/live.sock"


def leave_stale(path):
    """Create the socket file that a killed program leaves."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
        dead.listen()


# --- access -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:9000", "[::1]:9000", "10.1.2.3"])
def test_numeric_hosts_and_localhost_are_accepted(host):
    with hwheel.live.serve(0, ManualTimer()) as server:
        assert http_request(server.address, host=host).status == 200


def test_a_head_response_has_no_body(address):
    with hwheel.live.serve(address, ManualTimer()) as server, open_connection(server.address) as client:
        client.sendall(b"HEAD /live.json HTTP/1.0\r\nHost: localhost\r\n\r\n")
        said = b"".join(iter(lambda: client.recv(65536), b""))
    assert said.startswith(b"HTTP/1.0 200 ") and said.index(b"\r\n\r\n") == len(said) - 4


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:9000", "127.0.0.1.evil.example", "localhost.evil", "[]"]
)
@pytest.mark.parametrize("page", ["/", "/live.json", "/metrics", "/other"])
def test_a_foreign_host_header_is_refused(page, host):
    timer = ManualTimer("secret")
    with hwheel.live.serve(0, timer) as server:
        answer = http_request(server.address, page, host=host)
        assert answer.status == 403 and b"secret" not in answer.body


def test_the_host_of_the_address_is_accepted():
    with hwheel.live.serve(("localhost", 0), ManualTimer()) as server:
        assert server.address[0] == "localhost" and server.address[1] > 0
        assert http_request(server.address).status == 200


def test_a_unix_socket_accepts_any_host_header(path):
    with hwheel.live.serve(path, ManualTimer()) as server:
        assert server.address == path and repr(server) == f"<LiveServer {path!r}>"
        assert http_request(path, host="requests.internal").status == 200


def test_pages_are_read_only_and_closed_to_other_sites(address):
    timer = ManualTimer()
    timer.call_later(1, int)
    with hwheel.live.serve(address, timer) as server:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert http_request(server.address, method=method).status == 501
        for page in ("/", "/live.json", "/nothing"):
            answer = http_request(server.address, page)
            assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert http_request(server.address, "/nothing").status == 404
        assert http_request(server.address, "/../../etc/passwd").status == 404
        head = http_request(server.address, "/live.json", method="HEAD")
        assert head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) > 100
        assert len(timer) == 1


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (None, TypeError),
        (True, TypeError),
        (9000.0, TypeError),
        (b"socket", TypeError),
        (("127.0.0.1",), TypeError),
        ((9000, "127.0.0.1"), TypeError),
        (("127.0.0.1", True), TypeError),
        (-1, ValueError),
        (65536, ValueError),
        (("", 9000), ValueError),
        ("", ValueError),
        ("a\0b", ValueError),
        (PurePathOfBytes(), TypeError),
        ("/tmp/" + "a" * 200, ValueError),
        ("/nowhere/live.sock", FileNotFoundError),
        (("no.such.host.invalid", 0), OSError),
    ],
)
def test_a_bad_address_is_an_error_and_leaves_nothing(wrong, error):
    before = descriptors()
    with pytest.raises(error) as caught:
        hwheel.live.serve(wrong, ManualTimer())
    assert str(caught.value) and threads() == [] and descriptors() == before


@pytest.mark.parametrize("wrong", [None, "requests", hwheel.TimingWheel(1, 20), {}])
def test_only_timers_and_purgatories_are_accepted(wrong, path):
    with pytest.raises(
        TypeError, match=r"expected a SystemTimer, a ManualTimer, or a DelayedOperationPurgatory, got \w+"
    ):
        hwheel.live.serve(path, ManualTimer(), wrong)
    assert not os.path.exists(path)


# --- concurrent clients -----------------------------------------------------------------------------------------------


def test_many_clients_at_once(address):
    timer = ManualTimer("requests")
    with hwheel.live.serve(address, timer) as server, ThreadPoolExecutor(50) as pool:
        together = threading.Barrier(50)

        def look(_):
            together.wait()
            return live_snapshot(server.address)["timers"][0]["name"]

        assert [*pool.map(look, range(50))] == ["requests"] * 50


def test_silent_clients_do_not_delay_others(address):
    timer = ManualTimer()
    with ExitStack() as stack, hwheel.live.serve(address, timer) as server:
        for number in range(60):
            client = stack.enter_context(open_connection(server.address))
            if number % 2:
                client.sendall(b"GET /live.json HTTP/1.1\r\nHost:")
        began = time.monotonic()
        assert live_snapshot(server.address)["timers"]
        assert time.monotonic() - began < HTTP_TIMEOUT_S / 2


def test_a_silent_client_is_disconnected(path, monkeypatch, eventually):
    monkeypatch.setattr("hwheel.live.http_handler.Handler.timeout", Handler.timeout / 25)
    with hwheel.live.serve(path, ManualTimer()), open_connection(path) as client:
        eventually(lambda: len(threads()) == 2)
        assert client.recv(1) == b""
        eventually(lambda: len(threads()) == 1)


def test_a_client_that_reads_slowly_but_steadily_gets_the_whole_answer(address, monkeypatch):
    patience_s = Handler.timeout / 5
    monkeypatch.setattr("hwheel.live.http_handler.Handler.timeout", patience_s)
    page = os.urandom(4_000_000).hex()
    monkeypatch.setattr("hwheel.live.http_handler.PAGE", page)
    with hwheel.live.serve(address, ManualTimer()) as server, open_connection(server.address) as client:
        client.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        begin, said = time.monotonic(), bytearray()
        while piece := client.recv(100_000):
            said += piece
            if time.monotonic() < begin + 3 * patience_s:
                time.sleep(patience_s / 20)
    assert len(said) > len(page)


def test_beyond_the_limit_the_oldest_client_is_disconnected(path, monkeypatch, eventually):
    monkeypatch.setattr("hwheel.live.http_handler.Handler.timeout", 600)
    with ExitStack() as stack, hwheel.live.serve(path, ManualTimer()) as server:
        clients = [stack.enter_context(open_connection(path)) for _ in range(MAX_CONNECTIONS)]
        eventually(lambda: len(threads()) == 1 + MAX_CONNECTIONS)
        assert http_request(path).status == 200
        assert clients[0].recv(1) == b""
        clients[-1].settimeout(0.1)
        with pytest.raises(TimeoutError):
            clients[-1].recv(1)
        assert len(server._connections) <= MAX_CONNECTIONS


@pytest.mark.parametrize("request_text", [b"", b"GET / HTTP/1.0\r\n", b"GET / HTTP/1.0\r\n\r\n"])
def test_close_disconnects_clients_and_frees_everything(request_text, address, path, monkeypatch):
    monkeypatch.setattr("hwheel.live.http_handler.Handler.timeout", 600)
    before = descriptors()
    server = hwheel.live.serve(address, ManualTimer())
    where = server.address
    clients = [open_connection(where) for _ in range(20)]
    for client in clients:
        client.sendall(request_text)
    server.close()
    assert server.closed and threads() == []
    assert not os.path.exists(path)
    with pytest.raises(OSError):
        open_connection(where).close()
    for client in clients:
        client.close()
    assert descriptors() == before
    server.close()
    with hwheel.live.serve(where, ManualTimer()) as again:
        assert http_request(again.address).status == 200


def test_concurrent_calls_of_close(path):
    server = hwheel.live.serve(path, ManualTimer())
    with open_connection(path), ThreadPoolExecutor(8) as pool:
        for closing in [pool.submit(server.close) for _ in range(8)]:
            closing.result(HTTP_TIMEOUT_S)
    assert threads() == [] and not os.path.exists(path)


def test_close_disconnects_a_client_that_does_not_read(path, monkeypatch):
    monkeypatch.setattr("hwheel.live.http_handler.PAGE", "x" * 50_000_000)
    monkeypatch.setattr("hwheel.live.http_handler.Handler.timeout", 600)
    server = hwheel.live.serve(path, ManualTimer())
    with open_connection(path) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(9) == b"HTTP/1.0 "
        server.close()
    assert threads() == []


def test_an_error_in_a_snapshot_is_reported_and_the_next_request_succeeds(path, monkeypatch, eventually):
    class FailsOnce(ManualTimer):
        @property
        def tick_ms(self):  # read by every snapshot, in the thread of the connection
            if errors:
                raise errors.pop()
            return 1

    errors, reported = [RuntimeError("odd")], []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append((args.exc_type, args.thread.name)))
    with hwheel.live.serve(path, timer := FailsOnce("requests")):
        with contextlib.suppress(OSError, http.client.HTTPException):
            http_request(path)
        eventually(lambda: reported == [(RuntimeError, "hwheel-live-request")])
        assert [one["name"] for one in live_snapshot(path)["timers"]] == [timer.name]
    assert threads() == []


def test_without_a_thread_a_client_is_disconnected_and_the_next_one_is_served(path, monkeypatch):
    original, refused = threading.Thread.start, []

    def start_unless_first(thread):
        if thread.name == "hwheel-live-request" and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        original(thread)

    with hwheel.live.serve(path, ManualTimer()) as server:
        monkeypatch.setattr(threading.Thread, "start", start_unless_first)
        with open_connection(path) as client:
            assert client.recv(1) == b""
        assert http_request(path).status == 200
        assert refused[0] not in server._connections.values()


def test_repeated_errors_of_accept_do_not_cause_a_busy_loop(path, monkeypatch, eventually):
    naps = []
    monkeypatch.setattr("hwheel.live.server.time", SimpleNamespace(sleep=lambda s: (naps.append(s), time.sleep(s))))
    with hwheel.live.serve(path, ManualTimer()) as server:
        with socket.socket(socket.AF_UNIX) as other:  # not listening, as if the program had closed the descriptor
            os.dup2(other.fileno(), server._listener.socket.fileno())
        with contextlib.suppress(OSError):
            open_connection(path).close()  # wakes the thread
        eventually(lambda: len(naps) > 2)


# --- the file of a socket ---------------------------------------------------------------------------------------------


def test_only_the_owner_can_use_the_socket(path):
    with hwheel.live.serve(path, ManualTimer()):
        mode = os.lstat(path).st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600


def test_a_stale_socket_is_replaced(path):
    leave_stale(path)
    timer = ManualTimer("new")
    with hwheel.live.serve(path, timer):
        assert live_snapshot(path)["timers"][0]["name"] == "new"
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    "make", [lambda path: path.write_text("mine"), lambda path: path.mkdir(), lambda path: path.symlink_to("a")]
)
def test_a_file_that_is_not_a_socket_is_kept(make, short_path):
    path = short_path / "mine"
    make(path)
    before = os.lstat(path)
    with pytest.raises(FileExistsError, match="not a socket"):
        hwheel.live.serve(path, ManualTimer())
    assert os.lstat(path) == before


@pytest.mark.parametrize("busy", [False, True])
def test_a_socket_in_use_is_kept(busy, path):
    with ExitStack() as stack:
        other = stack.enter_context(socket.socket(socket.AF_UNIX))
        other.bind(path)
        other.listen(0)
        if busy:  # the other program does not accept
            clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
            for client in clients:
                client.setblocking(False)
                client.connect_ex(path)
        with pytest.raises(OSError, match="another program listens on this socket"):
            hwheel.live.serve(path, ManualTimer())
        assert stat.S_ISSOCK(os.lstat(path).st_mode)


def test_two_servers_on_one_path(path):
    first, second = ManualTimer("first"), ManualTimer("second")
    with hwheel.live.serve(path, first):
        with pytest.raises(OSError, match="another program listens on this socket"):
            hwheel.live.serve(path, second)
        assert live_snapshot(path)["timers"][0]["name"] == "first"
    assert threads() == []


def test_close_keeps_a_file_that_replaced_the_socket(path):
    server = hwheel.live.serve(path, ManualTimer())
    os.rename(path, f"{path}.old")  # so that the new one has another inode
    Path(path).write_text("mine")
    server.close()
    assert Path(path).read_text() == "mine"
    os.unlink(f"{path}.old")


def test_a_relative_path_survives_a_change_of_directory(short_path, monkeypatch):
    monkeypatch.chdir(short_path)
    (short_path / "elsewhere").mkdir()
    with hwheel.live.serve("live.sock", ManualTimer()):
        monkeypatch.chdir(short_path / "elsewhere")
    assert not (short_path / "live.sock").exists()


def test_the_error_for_a_used_port_names_it():
    with hwheel.live.serve(0, ManualTimer()) as server:
        with pytest.raises(OSError) as caught:
            hwheel.live.serve(server.address)
        assert caught.value.filename == "{}:{}".format(*server.address)
