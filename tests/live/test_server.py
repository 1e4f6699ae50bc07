"""The server of the live look: who may ask, who is in whose way, and what is left when it ends."""

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
from hwheel.live.answer import Answer
from hwheel.live.server import MOST, LiveServer
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
    """What a program leaves that was killed."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
        dead.listen()


# --- who may ask ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:9000", "[::1]:9000", "10.1.2.3"])
def test_who_asks_by_figures_or_localhost_is_answered(host):
    with hwheel.live.serve(0, ManualTimer()) as server:
        assert http_request(server.address, host=host).status == 200


def test_who_asks_for_the_head_gets_no_body(address):
    with hwheel.live.serve(address, ManualTimer()) as server, open_connection(server.address) as client:
        client.sendall(b"HEAD /live.json HTTP/1.0\r\nHost: localhost\r\n\r\n")
        said = b"".join(iter(lambda: client.recv(65536), b""))
    assert said.startswith(b"HTTP/1.0 200 ") and said.index(b"\r\n\r\n") == len(said) - 4


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:9000", "127.0.0.1.evil.example", "localhost.evil", "[]"]
)
@pytest.mark.parametrize("page", ["/", "/live.json", "/metrics", "/other"])
def test_a_page_whose_name_was_made_to_lead_here_is_told_nothing(page, host):
    timer = ManualTimer("secret")
    with hwheel.live.serve(0, timer) as server:
        answer = http_request(server.address, page, host=host)
        assert answer.status == 403 and b"secret" not in answer.body


def test_the_name_that_it_was_told_to_listen_on_is_its_own():
    with hwheel.live.serve(("localhost", 0), ManualTimer()) as server:
        assert server.address[0] == "localhost" and server.address[1] > 0
        assert http_request(server.address).status == 200


def test_on_a_unix_socket_the_name_is_anybodys(path):
    with hwheel.live.serve(path, ManualTimer()) as server:
        assert server.address == path and repr(server) == f"<LiveServer {path!r}>"
        assert http_request(path, host="requests.internal").status == 200


def test_no_other_site_is_let_in_and_nothing_can_be_changed(address):
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
def test_a_bad_address_is_an_error_at_the_call_and_leaves_nothing(wrong, error):
    before = descriptors()
    with pytest.raises(error) as said:
        hwheel.live.serve(wrong, ManualTimer())
    assert str(said.value) and threads() == [] and descriptors() == before


@pytest.mark.parametrize("wrong", [None, "requests", hwheel.TimingWheel(1, 20), {}])
def test_only_timers_and_purgatories_can_be_shown(wrong, path):
    with pytest.raises(
        TypeError, match=r"a SystemTimer, a ManualTimer or a DelayedOperationPurgatory is wanted, not \w+"
    ):
        hwheel.live.serve(path, ManualTimer(), wrong)
    assert not os.path.exists(path)


# --- who is in whose way ----------------------------------------------------------------------------------------------


def test_many_at_once(address):
    timer = ManualTimer("requests")
    with hwheel.live.serve(address, timer) as server, ThreadPoolExecutor(50) as pool:
        together = threading.Barrier(50)

        def look(_):
            together.wait()
            return live_snapshot(server.address)["timers"][0]["name"]

        assert [*pool.map(look, range(50))] == ["requests"] * 50


def test_clients_that_say_nothing_keep_nobody_waiting(address):
    timer = ManualTimer()
    with ExitStack() as stack, hwheel.live.serve(address, timer) as server:
        for number in range(60):
            client = stack.enter_context(open_connection(server.address))
            if number % 2:
                client.sendall(b"GET /live.json HTTP/1.1\r\nHost:")
        began = time.monotonic()
        assert live_snapshot(server.address)["timers"]
        assert time.monotonic() - began < HTTP_TIMEOUT_S / 2


def test_a_client_that_says_nothing_is_let_go_of(path, monkeypatch, eventually):
    monkeypatch.setattr("hwheel.live.answer.Answer.timeout", Answer.timeout / 25)  # some seconds, then
    with hwheel.live.serve(path, ManualTimer()), open_connection(path) as client:
        eventually(lambda: len(threads()) == 2)
        assert client.recv(1) == b""
        eventually(lambda: len(threads()) == 1)


def test_of_too_many_the_oldest_has_to_go(path, monkeypatch, eventually):
    monkeypatch.setattr("hwheel.live.answer.Answer.timeout", 600)  # it goes before that
    with ExitStack() as stack, hwheel.live.serve(path, ManualTimer()) as server:
        clients = [stack.enter_context(open_connection(path)) for _ in range(MOST)]
        eventually(lambda: len(threads()) == 1 + MOST)
        assert http_request(path).status == 200
        assert clients[0].recv(1) == b""
        clients[-1].settimeout(0.1)
        with pytest.raises(TimeoutError):
            clients[-1].recv(1)
        assert len(server._answering) <= MOST


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.0\r\n", b"GET / HTTP/1.0\r\n\r\n"])
def test_close_ends_everything_with_clients_there(said, address, path, monkeypatch):
    monkeypatch.setattr("hwheel.live.answer.Answer.timeout", 600)  # it does not wait for that
    before = descriptors()
    server = hwheel.live.serve(address, ManualTimer())
    where = server.address
    clients = [open_connection(where) for _ in range(20)]
    for client in clients:
        client.sendall(said)
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


def test_threads_that_close_it_at_once(path):
    server = hwheel.live.serve(path, ManualTimer())
    with open_connection(path), ThreadPoolExecutor(8) as pool:
        for closing in [pool.submit(server.close) for _ in range(8)]:
            closing.result(HTTP_TIMEOUT_S)
    assert threads() == [] and not os.path.exists(path)


def test_who_reads_nothing_is_cut_off_by_close(path, monkeypatch):
    monkeypatch.setattr("hwheel.live.answer.PAGE", "x" * 50_000_000)
    monkeypatch.setattr("hwheel.live.answer.Answer.timeout", 600)
    server = hwheel.live.serve(path, ManualTimer())
    with open_connection(path) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(9) == b"HTTP/1.0 "
        server.close()
    assert threads() == []


@pytest.mark.parametrize("where", ["answers", "accepts"])
def test_a_finalizer_may_close_it_in_a_thread_of_its_own(where, path, monkeypatch, eventually):
    class ClosesIt(ManualTimer):
        @property
        def tick_ms(self):  # a look comes by here, in the thread of the connection
            if where == "answers":
                server.close()
            return 1

    def begin(connection, began=LiveServer._begin):
        if where == "accepts":
            server.close()
        began(server, connection)

    timer = ClosesIt()
    server = LiveServer(path, timer)
    monkeypatch.setattr(server, "_begin", begin)
    with contextlib.suppress(OSError, http.client.HTTPException):
        http_request(path)
    eventually(lambda: threads() == [])
    assert server.closed and not os.path.exists(path)


def test_an_error_of_a_look_is_reported_and_who_asks_next_is_answered(path, monkeypatch, eventually):
    class FailsOnce(ManualTimer):
        @property
        def tick_ms(self):  # a look comes by here, in the thread of the connection
            if errors:
                raise errors.pop()
            return 1

    errors, reported = [RuntimeError("odd")], []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append((args.exc_type, args.thread.name)))
    with hwheel.live.serve(path, timer := FailsOnce("requests")):
        with contextlib.suppress(OSError, http.client.HTTPException):
            http_request(path)
        eventually(lambda: reported == [(RuntimeError, "hwheel-live-answer")])
        assert [one["name"] for one in live_snapshot(path)["timers"]] == [timer.name]
    assert threads() == []


def test_where_no_thread_can_be_had_who_asks_is_sent_away_and_who_asks_next_is_answered(path, monkeypatch):
    start, refused = threading.Thread.start, []

    def start_unless_it_is_the_first(thread):
        if thread.name == "hwheel-live-answer" and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    with hwheel.live.serve(path, ManualTimer()) as server:
        monkeypatch.setattr(threading.Thread, "start", start_unless_it_is_the_first)
        with open_connection(path) as client:
            assert client.recv(1) == b""
        assert http_request(path).status == 200
        assert refused[0] not in server._answering.values()


def test_what_accept_raises_again_and_again_is_no_reason_to_hurry(path, monkeypatch, eventually):
    naps = []
    monkeypatch.setattr("hwheel.live.server.time", SimpleNamespace(sleep=lambda s: (naps.append(s), time.sleep(s))))
    with hwheel.live.serve(path, ManualTimer()) as server:
        with socket.socket(socket.AF_UNIX) as other:  # it does not listen; a program may close descriptors, too
            os.dup2(other.fileno(), server._listener.socket.fileno())
        with contextlib.suppress(OSError):
            open_connection(path).close()  # who waits for the one before looks again
        eventually(lambda: len(naps) > 2)


# --- the file of a socket ---------------------------------------------------------------------------------------------


def test_the_socket_is_its_owners_alone(path):
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
def test_what_is_no_socket_stays(make, short_path):
    path = short_path / "mine"
    make(path)
    before = os.lstat(path)
    with pytest.raises(FileExistsError, match="not a socket"):
        hwheel.live.serve(path, ManualTimer())
    assert os.lstat(path) == before


@pytest.mark.parametrize("busy", [False, True])
def test_a_socket_on_which_somebody_answers_stays(busy, path):
    with ExitStack() as stack:
        other = stack.enter_context(socket.socket(socket.AF_UNIX))
        other.bind(path)
        other.listen(0)
        if busy:  # nobody takes its calls
            clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
            for client in clients:
                client.setblocking(False)
                client.connect_ex(path)
        with pytest.raises(OSError, match="another program answers on this socket"):
            hwheel.live.serve(path, ManualTimer())
        assert stat.S_ISSOCK(os.lstat(path).st_mode)


def test_two_servers_on_one_path(path):
    first, second = ManualTimer("first"), ManualTimer("second")
    with hwheel.live.serve(path, first):
        with pytest.raises(OSError, match="another program answers on this socket"):
            hwheel.live.serve(path, second)
        assert live_snapshot(path)["timers"][0]["name"] == "first"
    assert threads() == []


def test_of_many_that_find_a_stale_socket_at_once_one_gets_it(path):
    for _ in range(20):
        leave_stale(path)
        together = threading.Barrier(6)
        servers, refused = [], []

        def start(together=together, servers=servers, refused=refused):
            together.wait()
            try:
                servers.append(hwheel.live.serve(path, ManualTimer()))
            except OSError as error:
                refused.append(error)

        starting = [threading.Thread(target=start) for _ in range(6)]
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join()
        answers = http_request(path).status if len(servers) == 1 else None
        for server in servers:
            server.close()
        assert (len(servers), len(refused), answers) == (1, 5, 200), refused
        assert not os.path.exists(path)


def test_who_holds_the_lock_of_the_directory_for_long_is_not_waited_for(path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr("hwheel.live.address.LOCK_S", 0.05)
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    with ThreadPoolExecutor(1) as opens:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            opens.submit(hwheel.live.serve, path, ManualTimer()).result(HTTP_TIMEOUT_S).close()
        finally:
            os.close(directory)  # who waits for it all the same goes on


def test_close_leaves_what_another_has_put_there(path):
    server = hwheel.live.serve(path, ManualTimer())
    os.rename(path, f"{path}.old")  # so that the new one has another inode
    Path(path).write_text("mine")
    server.close()
    assert Path(path).read_text() == "mine"
    os.unlink(f"{path}.old")


def test_a_path_is_where_it_was_when_it_was_given(short_path, monkeypatch):
    monkeypatch.chdir(short_path)
    (short_path / "elsewhere").mkdir()
    with hwheel.live.serve("live.sock", ManualTimer()):
        monkeypatch.chdir(short_path / "elsewhere")
    assert not (short_path / "live.sock").exists()


def test_a_port_that_is_taken_is_an_error_that_names_it():
    with hwheel.live.serve(0, ManualTimer()) as server:
        with pytest.raises(OSError) as said:
            hwheel.live.serve(server.address)
        assert said.value.filename == "{}:{}".format(*server.address)
