"""`hwheel top`: its output at any width, its errors, and its behavior in a terminal."""

import asyncio
import contextlib
import doctest
import importlib
import io
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading

import pytest

import hwheel.asyncio
import hwheel.live
from hwheel import ManualTimer
from hwheel.cli.main import main
from hwheel.cli.top.client import parse_address
from hwheel.cli.top.rates import rates_between
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from programs import PATIENCE_S, environment
from servers import live_snapshot
from waiting import eventually

pytest.importorskip("rich")
fcntl, pty, termios = map(pytest.importorskip, ("fcntl", "pty", "termios"))  # missing on Windows
PROGRAM = """
import faulthandler, sys
faulthandler.dump_traceback_later(100, exit=True)
import hwheel.live
from hwheel import SystemTimer

timer = SystemTimer("requests")
timer.call_later(3600, print)
server = hwheel.live.serve(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(short_path):
    return str(short_path / "live.sock")


def requests():
    """Return a timer. This is not a fixture, because pytest keeps fixtures alive while others check for leaks."""
    timer = ManualTimer("requests")
    for i in range(1, 1001):
        timer.call_later(i / 10, int)
    timer.call_later(30 * 86_400, int)
    timer.advance(10)
    return timer


@pytest.fixture
def program(path, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, file, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as running:
        assert running.stdout.readline() == "ready\n"
        yield running
        running.kill()


def top(capsys, monkeypatch, *arguments, width=80):
    """(status, standard output, standard error)"""
    monkeypatch.setenv("COLUMNS", str(width))
    status = main(["top", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


# --- one snapshot -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_one_snapshot_fits_the_width_and_is_complete(width, path, capsys, monkeypatch):
    timer = requests()
    other = ManualTimer("a timer whose name is longer than there is room for on a line of many figures", tick_ms=1000)
    hostile = ManualTimer("red \x1b[31m \a[bold]")
    with hwheel.live.serve(path, timer, other, hostile):
        status, out, err = top(capsys, monkeypatch, path, "--once", "--interval", "0.1", width=width)
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= width
    assert "\x1b" not in out and "\a" not in out and "[bold]" in out
    (line,) = re.findall(r"^requests +901 +0 +0 +0 .*$", out, re.MULTILINE)
    assert line.endswith("0 ms") and "…" not in out, "no name is cut"
    for wanted in (
        "requests  ManualTimer, tick 1 ms, 512 buckets per level",
        "level 1",
        "level 4",
        f"pid {os.getpid()}",
    ):
        assert wanted in out
    assert re.search(r"level 2 +to 2 min ▆?█+▁ +898\b", out) and re.search(r"level 4 +to 93 d +█ +1\b", out), out
    assert re.search(r"to 0.13 ms █+ +100\b", out) and "nothing has expired yet" in out
    assert out.count("late: median 0 ms, 99 % 0 ms, most 0 ms") == 3
    assert ("wake/s" in out) == (width >= 80)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_names_that_the_encoding_lacks(encoding, path):
    timers = [ManualTimer(name) for name in ("Zeitlimit für Anfragen an den Dienst nebenan", "日本語", "\udcff")]
    with hwheel.live.serve(path, *timers):
        done = subprocess.run(
            [sys.executable, "-m", "hwheel", "top", path, "--once", "--interval", "0.1"],
            capture_output=True,
            env={**environment(), "PYTHONIOENCODING": encoding, "COLUMNS": "60"},
            timeout=PATIENCE_S,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("日本語" if encoding == "utf-8" else "???") in done.stdout.decode(encoding)


@pytest.mark.parametrize("width", [60, 80, 90, 100])
def test_a_line_wraps_only_if_it_is_too_long(width, path, capsys, monkeypatch):
    timer = requests()
    monkeypatch.setattr("hwheel.cli.top.draw.ms_text", lambda ms: "0.0123 ms")
    monkeypatch.setattr("hwheel.cli.top.command.time.sleep", lambda _: timer.advance(1))
    with hwheel.live.serve(path, timer):
        _, out, _ = top(capsys, monkeypatch, path, "--once", width=width)
    before, now = "late: median 0.0123 ms, 99 % 0.0123 ms, most 0.0123 ms", "just now: median 0.0123 ms, 99 % 0.0123 ms"
    assert f"{before}; {now}" in out if width == 100 else f"{before}\n      {now}\n" in out


def test_a_program_without_timers(path, capsys, monkeypatch):
    gone = ManualTimer("gone")
    with hwheel.live.serve(path, gone):
        del gone
        assert "The program has no timers at the moment." in top(capsys, monkeypatch, path, "--interval", "0.1")[1]


def test_json_is_the_snapshot_with_rates(path, capsys, monkeypatch):
    timer = requests()
    stop = threading.Event()

    def work():
        while not stop.wait(0.001):
            timer.call_later(3600, int).cancel()
            timer.call_later(0.001, int)
            timer.advance(0.002)

    working = threading.Thread(target=work)
    with hwheel.live.serve(path, timer) as server:
        working.start()
        try:
            status, out, err = top(capsys, monkeypatch, path, "--json", "--interval", "0.5")
        finally:
            stop.set()
            working.join()
        told, now = json.loads(out), live_snapshot(server.address)
    assert (status, err) == (0, "")
    assert told.keys() == now.keys()
    (shown,) = told["timers"]
    rates = shown.pop("a_second")
    assert shown.keys() == now["timers"][0].keys()
    assert rates["added"] > rates["cancelled"] > 0 < rates["expired"] and rates["wakeups"] == 0
    assert rates["late_p50_ms"] == rates["late_p99_ms"] == 0


def test_ports_and_urls(capsys, monkeypatch):
    timer = requests()
    with hwheel.live.serve(0, timer) as server:
        port = server.address[1]
        for address in (f"{port}", f":{port}", f"localhost:{port}", f"http://127.0.0.1:{port}/"):
            status, out, err = top(capsys, monkeypatch, address, "--interval", "0.1")
            assert (status, err) == (0, "") and "requests" in out


# --- errors -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def answering(path, answer):
    """Run a server that always sends the same answer."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(1000)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def refused(capsys, monkeypatch, *arguments):
    """Return the standard error of a command that fails."""
    status, out, err = top(capsys, monkeypatch, *arguments)
    assert (status, out) == (2, "")
    lines = err.splitlines()
    assert 1 <= len(lines) <= 2 and all(line.startswith("hwheel top: ") for line in lines), err
    return err


@pytest.mark.parametrize("how", [[], ["--once"], ["--json"]])
def test_no_server(how, path, capsys, monkeypatch):
    assert f"{path}: no such socket" in refused(capsys, monkeypatch, path, *how)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    said = refused(capsys, monkeypatch, path, *how)
    assert f"{path}: nothing listens there" in said and f"hwheel.live.serve('{path}')" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = refused(capsys, monkeypatch, str(port), *how)
    assert f"127.0.0.1:{port}: nothing listens there" in said and f"hwheel.live.serve({port})" in said


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\n\r\n<html>",
        b"HTTP/1.0 404 no\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n[]",
        b'HTTP/1.0 200 OK\r\n\r\n{"pid": 1}',
        b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 100_000,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
    ],
)
def test_another_server(answer, path, capsys, monkeypatch):
    with answering(path, answer):
        assert "the server " in refused(capsys, monkeypatch, path)


def test_a_server_that_does_not_answer(path, capsys, monkeypatch):
    monkeypatch.setattr("hwheel.cli.top.client.PATIENCE_S", 0.1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        assert "no answer within 0.1 s" in refused(capsys, monkeypatch, path)


def test_a_host_that_the_server_refuses(capsys, monkeypatch):
    timer = requests()
    monkeypatch.setattr("hwheel.live.http_handler.host_is_ours", lambda host, own: False)
    with hwheel.live.serve(0, timer) as server:
        assert "use localhost or the numeric address" in refused(capsys, monkeypatch, str(server.address[1]))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["", "--once"], "ADDRESS must not be empty"),
        (["/tmp/a", "--interval", "0.01"], "--interval: must be at least 0.1, not 0.01"),
        (["0"], "a port must be from 1 to 65535, not 0"),
        (["host:99999"], "a port must be from 1 to 65535, not 99999"),
        (["https://127.0.0.1:1/"], "ADDRESS must be a path"),
        (["http://127.0.0.1:x/"], "http://127.0.0.1:x/"),
        (["ftp://a:1/"], "ADDRESS must be a path"),
        (["no.such.host.invalid:80"], "no.such.host.invalid:80: "),
        (["host..example:80"], "host..example:80: invalid host name"),
        ([f"http://{'a' * 64}:80/"], "invalid host name"),
        (["1" * 5000], "AF_UNIX path too long"),
    ],
)
def test_a_bad_address_is_an_error(arguments, text, capsys, monkeypatch):
    assert text in refused(capsys, monkeypatch, *arguments)


def test_a_program_that_ends_between_the_snapshots(path, capsys, monkeypatch):
    timer = requests()
    server = hwheel.live.serve(path, timer)
    monkeypatch.setattr("hwheel.cli.top.command.time.sleep", lambda _: server.close())
    status, out, err = top(capsys, monkeypatch, path, "--once")
    assert (status, out, err) == (1, "", f"hwheel top: the program has ended (pid {os.getpid()})\n")


def test_a_program_that_stops_answering_between_the_snapshots(path, capsys, monkeypatch):
    monkeypatch.setattr("hwheel.cli.top.client.PATIENCE_S", 0.1)
    silent = threading.Event()
    original = hwheel.live.server.LiveServer._start

    def start(server, connection):
        if silent.is_set():
            kept.append(connection)
        else:
            original(server, connection)

    kept = []
    monkeypatch.setattr(hwheel.live.server.LiveServer, "_start", start)
    with hwheel.live.serve(path, requests()):
        monkeypatch.setattr("hwheel.cli.top.command.time.sleep", lambda _: silent.set())
        assert f"does not answer any more (pid {os.getpid()})" in refused(capsys, monkeypatch, path, "--once")
    for connection in kept:
        connection.close()


# --- a terminal -------------------------------------------------------------------------------------------------------


class Terminal:
    """A command in a pseudoterminal."""

    def __init__(self, *arguments, columns=60, lines=30, term="xterm-256color"):
        self.fd, slave = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        env = {**environment(), "TERM": term}
        for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
            env.pop(name, None)
        command = [sys.executable, "-m", "hwheel", *arguments]
        self.running = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env)
        os.close(slave)
        self.out = ""

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.running.kill()
        self.running.wait()
        os.close(self.fd)

    def shows(self, text, times=1):
        def is_shown():
            if select.select([self.fd], [], [], 0.01)[0]:
                with contextlib.suppress(OSError):  # the command has ended
                    self.out += os.read(self.fd, 65536).decode(errors="replace")
            return self.out.count(text) >= times

        eventually(is_shown, f"{text!r} in the terminal")


RESTORED = "\x1b[?1049l"


def test_ctrl_c_ends_it_and_restores_the_terminal(program, path):
    with Terminal("top", path, "--interval", "0.1") as terminal:
        terminal.shows(f"pid {program.pid}", times=3)
        terminal.running.send_signal(signal.SIGINT)
        terminal.shows(RESTORED)
        assert terminal.running.wait(PATIENCE_S) == 0
        assert "Traceback" not in terminal.out and "interrupted" not in terminal.out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_fatal_signal_restores_the_terminal(number, program, path):
    with Terminal("top", path, "--interval", "0.1") as terminal:
        terminal.shows(f"pid {program.pid}", times=3)
        terminal.running.send_signal(number)
        terminal.shows(RESTORED)
        assert terminal.running.wait(PATIENCE_S) == 128 + number
        assert "Traceback" not in terminal.out


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_without_a_cursor_gets_one_snapshot(term, program, path):
    with Terminal("top", path, "--interval", "0.1", term=term) as terminal:
        terminal.shows("requests", times=2)
        assert terminal.running.wait(PATIENCE_S) == 0
        assert "\x1b[?" not in terminal.out


def test_force_color_does_not_make_a_file_a_terminal(program, path):
    done = subprocess.run(
        [sys.executable, "-m", "hwheel", "top", path, "--interval", "0.1"],
        capture_output=True,
        text=True,
        env={**environment(), "FORCE_COLOR": "1"},
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr, done.stdout.count(f"pid {program.pid}")) == (0, "", 1)
    assert "\x1b[1m" in done.stdout and "\x1b[?" not in done.stdout


def test_the_end_of_the_program_is_reported(program, path):
    with Terminal("top", path, "--interval", "0.1", columns=120) as terminal:
        terminal.shows(f"pid {program.pid}", times=2)
        program.stdin.close()
        terminal.shows(f"The program has ended (pid {program.pid}).")
        assert terminal.running.wait(PATIENCE_S) == 0
        assert terminal.out.index(RESTORED) < terminal.out.index("The program has ended")


def test_timers_that_do_not_fit_are_mentioned(path):
    timers = [ManualTimer(f"timer {number}") for number in range(9)]
    with hwheel.live.serve(path, *timers), Terminal("top", path, "--interval", "0.1", lines=24) as terminal:
        terminal.shows("more in a taller terminal", times=2)
        assert all(timer.name in terminal.out for timer in timers)


class Order(DelayedOperation):
    def try_complete(self):
        return False


def test_the_table_of_purgatories_and_the_state_of_a_silent_program(path):
    from rich.console import Console

    from hwheel.cli.top.draw import Page

    with DelayedOperationPurgatory("orders") as orders:
        orders.try_complete_else_watch(Order(60_000), ["tea", "jam"])
        with hwheel.live.serve(path, orders):
            taken = live_snapshot(path)
    console = Console(width=120, file=io.StringIO())
    console.print(Page(console).draw(taken, {}, path, "does not answer"))
    lines = console.file.getvalue().splitlines()
    assert lines[0].rstrip().endswith("does not answer")
    (heads,) = (line.split() for line in lines if line.strip().startswith("purgatory"))
    rows = [line.split() for line in lines if line.strip().startswith("orders")]
    told = [dict(zip(heads, row, strict=True)) for row in rows if len(row) == len(heads)]
    assert any((row["delayed"], row["watched"]) == ("1", "2") for row in told)


def test_loops_are_shown_with_their_callbacks(path):
    from rich.console import Console

    from hwheel.cli.top.draw import Page

    async def main():
        asyncio.get_running_loop().call_later(60, print)
        return await asyncio.to_thread(live_snapshot, path)

    with hwheel.live.serve(path):
        taken = hwheel.asyncio.run(main())
    console = Console(width=120, file=io.StringIO())
    console.print(Page(console).draw({**taken, "timers": []}, {}, path))
    lines = console.file.getvalue().splitlines()
    assert any("EventLoop  1 pending" in line for line in lines)
    assert any(line.startswith("builtins print") and " 100% " in line for line in lines)


def test_details_fill_the_terminal_and_hidden_timers_are_not_drawn(path, monkeypatch):
    timers = [requests(), *[ManualTimer() for _ in range(50)]]
    with hwheel.live.serve(path, *timers):
        taken = live_snapshot(path)
    from rich.console import Console

    from hwheel.cli.top.draw import Page

    def drawn(snapshot, lines):
        console = Console(width=60, height=lines, file=io.StringIO())
        page, details = Page(console), []
        monkeypatch.setattr(page, "_detail", lambda *args, detail=page._detail: details.append(args) or detail(*args))
        console.print(page.draw(snapshot, {}, path, lines=lines), end="")
        shown = console.file.getvalue().splitlines()
        assert len(shown) == lines and shown[-1] == "more in a taller terminal"
        return len(details), shown

    assert drawn(taken, 20)[0] == 0
    assert 1 < drawn(taken, 100)[0] < 10
    for lines in (10, 11, 12):  # room for only a part of a single timer: no blank rows
        _, shown = drawn({**taken, "timers": taken["timers"][:1]}, lines)
        assert any(row.startswith("level 1") for row in shown) and all(shown[6:-1])


# --- addresses and rates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["client", "rates", "draw"])
def test_docstring_examples(module):
    result = doctest.testmod(importlib.import_module(f"hwheel.cli.top.{module}"))
    assert result.attempted and not result.failed


def test_an_existing_file_whose_name_looks_like_a_port_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_address("9000").port == 9000
    (tmp_path / "9000").touch()
    assert parse_address("9000").path == "9000"


def test_the_path_of_a_url_is_quoted():
    assert parse_address("http://127.0.0.1:9000/a b/é?x").url_path == "/a%20b/%C3%A9/live.json"
    assert parse_address("http://127.0.0.1:9000/a%20b/live.json").url_path == "/a%20b/live.json"


def snapshot_at(time_s, pid=1, **counters):
    zero = {"added": 0, "cancelled": 0, "expired": 0, "wakeups": 0}
    late = {"histogram_us": counters.pop("steps", [])}
    return {"time": time_s, "pid": pid, "timers": [{"name": "a", **zero, **counters, "lateness": late}]}


def test_rates_use_the_clock_of_the_program():
    before = snapshot_at(10.0, added=5, steps=[[100, 7], [900, 1]])
    after = snapshot_at(12.0, added=25, expired=2, wakeups=1, steps=[[100, 8], [900, 1], [5000, 1]])
    rates = rates_between(before, after)["a"]
    assert rates == (10.0, 0.0, 1.0, 0.5, 0.1, 5.0)
    assert rates_between(after, snapshot_at(13.0, added=25, expired=2, wakeups=1))["a"].late_p50_ms is None


@pytest.mark.parametrize(
    "after", [snapshot_at(2.0, pid=2, added=5), snapshot_at(1.0, added=5), snapshot_at(2.0, added=1)]
)
def test_a_new_program_or_timer_has_no_rates_yet(after):
    assert rates_between(snapshot_at(1.0, added=2), after) == {}
