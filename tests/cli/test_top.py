"""hwheel top: what it shows of a program, at any width, and what it says when there is none."""

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

import hwheel.live
from hwheel import ManualTimer
from hwheel.cli.common import CommandError
from hwheel.cli.main import main
from hwheel.cli.top.place import place_of
from hwheel.cli.top.rates import rates_between
from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory
from programs import PATIENCE_S, environment
from servers import live_snapshot
from waiting import eventually

pytest.importorskip("rich")
fcntl, pty, termios = map(pytest.importorskip, ("fcntl", "pty", "termios"))  # there are none on Windows
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
    """A timer, not as a fixture: pytest holds on to those while others look for what is left behind."""
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


# --- one look ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_one_look_fits_and_has_it_all(width, path, capsys, monkeypatch):
    timer = requests()
    other = ManualTimer("a timer whose name is longer than there is room for on a line of many figures", tick_ms=1000)
    hostile = ManualTimer("red \x1b[31m \a[bold]")
    with hwheel.live.serve(path, timer, other, hostile):
        status, out, err = top(capsys, monkeypatch, path, "--once", "--interval", "0.1", width=width)
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= width
    assert "\x1b" not in out and "\a" not in out and "[bold]" in out
    (line,) = re.findall(r"^requests +901 +0 +0 +0 .*$", out, re.MULTILINE)
    assert "…" not in line and line.endswith("0 ms")
    for wanted in ("requests  ManualTimer, tick 1 ms, 512 buckets a level", "level 1", "level 4", f"pid {os.getpid()}"):
        assert wanted in out
    assert re.search(r"level 2 +to 2 min ▆?█+▁ +898\b", out) and re.search(r"level 4 +to 93 d +█ +1\b", out), out
    assert re.search(r"to 0.13 ms █+ +100\b", out) and "nothing has expired yet" in out
    assert out.count("late: median 0 ms, 99 % 0 ms, most 0 ms") == 3
    assert ("wake/s" in out) == (width >= 80)


def test_without_unicode_there_are_bars_too(path, monkeypatch):
    timer = requests()
    with hwheel.live.serve(path, timer):
        told = subprocess.run(
            [sys.executable, "-m", "hwheel", "top", path, "--once", "--interval", "0.1"],
            capture_output=True,
            env={**environment(), "PYTHONIOENCODING": "ascii", "COLUMNS": "60"},
            timeout=PATIENCE_S,
        )
    assert (told.returncode, told.stderr) == (0, b"")
    assert re.search(rb"to 0.13 ms #+ ", told.stdout) and re.search(rb"level 2 +to 2 min #+[.] +898\b", told.stdout)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_names_that_the_terminal_has_no_characters_for(encoding, path):
    timers = [ManualTimer(name) for name in ("Zeitlimit für Anfragen an den Dienst nebenan", "日本語", "\udcff")]
    with hwheel.live.serve(path, *timers):
        told = subprocess.run(
            [sys.executable, "-m", "hwheel", "top", path, "--once", "--interval", "0.1"],
            capture_output=True,
            env={**environment(), "PYTHONIOENCODING": encoding, "COLUMNS": "60"},
            timeout=PATIENCE_S,
        )
    assert (told.returncode, told.stderr) == (0, b"")
    assert ("日本語" if encoding == "utf-8" else "???") in told.stdout.decode(encoding)


@pytest.mark.parametrize("width", [60, 80, 90, 100])
def test_no_line_is_broken_where_it_need_not_be(width, path, capsys, monkeypatch):
    timer = requests()
    monkeypatch.setattr("hwheel.cli.top.draw.ms_text", lambda ms: "0.0123 ms")
    monkeypatch.setattr("hwheel.cli.top.command.time.sleep", lambda _: timer.advance(1))
    with hwheel.live.serve(path, timer):
        _, out, _ = top(capsys, monkeypatch, path, "--once", width=width)
    before, now = "late: median 0.0123 ms, 99 % 0.0123 ms, most 0.0123 ms", "just now: median 0.0123 ms, 99 % 0.0123 ms"
    assert f"{before}; {now}" in out if width == 100 else f"{before}\n      {now}\n" in out


def test_no_timers_are_no_fault(path, capsys, monkeypatch):
    gone = ManualTimer("gone")
    with hwheel.live.serve(path, gone):
        del gone
        assert "There is no timer at the moment." in top(capsys, monkeypatch, path, "--interval", "0.1")[1]


def test_json_has_what_the_program_says_and_the_rates(path, capsys, monkeypatch):
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


def test_by_a_port_and_by_a_url(capsys, monkeypatch):
    timer = requests()
    with hwheel.live.serve(0, timer) as server:
        port = server.address[1]
        for address in (f"{port}", f":{port}", f"localhost:{port}", f"http://127.0.0.1:{port}/"):
            status, out, err = top(capsys, monkeypatch, address, "--interval", "0.1")
            assert (status, err) == (0, "") and "requests" in out


# --- nobody there -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def answering(path, answer):
    """A server of something else."""
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
    """The lines on standard error of a command that is refused."""
    status, out, err = top(capsys, monkeypatch, *arguments)
    assert (status, out) == (2, "")
    lines = err.splitlines()
    assert 1 <= len(lines) <= 2 and all(line.startswith("hwheel top: ") for line in lines), err
    return err


@pytest.mark.parametrize("how", [[], ["--once"], ["--json"]])
def test_nobody_there(how, path, capsys, monkeypatch):
    assert f"{path}: there is no such socket" in refused(capsys, monkeypatch, path, *how)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    said = refused(capsys, monkeypatch, path, *how)
    assert f"{path}: nobody listens there" in said and f"hwheel.live.serve('{path}')" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = refused(capsys, monkeypatch, str(port), *how)
    assert f"127.0.0.1:{port}: nobody listens there" in said and f"hwheel.live.serve({port})" in said


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
def test_somebody_else_there(answer, path, capsys, monkeypatch):
    with answering(path, answer):
        assert "what answers there" in refused(capsys, monkeypatch, path)


def test_somebody_who_says_nothing(path, capsys, monkeypatch):
    monkeypatch.setattr("hwheel.cli.top.client.PATIENCE_S", 0.1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        assert "no answer within 0.1 s" in refused(capsys, monkeypatch, path)


def test_a_host_that_the_program_does_not_know(capsys, monkeypatch):
    timer = requests()
    monkeypatch.setattr("hwheel.live.answer.host_is_ours", lambda host, own: False)
    with hwheel.live.serve(0, timer) as server:
        assert "give the address in figures" in refused(capsys, monkeypatch, str(server.address[1]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["", "--once"], "ADDRESS must not be empty"),
        (["/tmp/a", "--interval", "0.01"], "--interval: must be at least 0.1, not 0.01"),
        (["0"], "a port is from 1 to 65535, not 0"),
        (["host:99999"], "a port is from 1 to 65535, not 99999"),
        (["https://127.0.0.1:1/"], "is no address"),
        (["http://127.0.0.1:x/"], "http://127.0.0.1:x/"),
        (["unix://a"], "is no address"),
        (["no.such.host.invalid:80"], "no.such.host.invalid:80: "),
        (["host..example:80"], "host..example:80: that is no name of a host"),
        ([f"http://{'a' * 64}:80/"], "that is no name of a host"),
        (["1" * 5000], "AF_UNIX path too long"),
    ],
)
def test_a_bad_address_is_said(arguments, said, capsys, monkeypatch):
    assert said in refused(capsys, monkeypatch, *arguments)


def test_a_program_that_ends_between_the_two_looks(path, capsys, monkeypatch):
    timer = requests()
    server = hwheel.live.serve(path, timer)
    monkeypatch.setattr("hwheel.cli.top.command.time.sleep", lambda _: server.close())
    status, out, err = top(capsys, monkeypatch, path, "--once")
    assert (status, out, err) == (1, "", f"hwheel top: the program has ended (pid {os.getpid()})\n")


def test_a_program_that_falls_silent_between_the_two_looks(path, capsys, monkeypatch):
    monkeypatch.setattr("hwheel.cli.top.client.PATIENCE_S", 0.1)
    silent = threading.Event()
    handed = hwheel.live.server.LiveServer._begin

    def begin(server, connection):
        if silent.is_set():
            kept.append(connection)  # nobody answers
        else:
            handed(server, connection)

    kept = []
    monkeypatch.setattr(hwheel.live.server.LiveServer, "_begin", begin)
    with hwheel.live.serve(path, requests()):
        monkeypatch.setattr("hwheel.cli.top.command.time.sleep", lambda _: silent.set())
        assert f"does not answer any more (pid {os.getpid()})" in refused(capsys, monkeypatch, path, "--once")
    for connection in kept:
        connection.close()


# --- a terminal -------------------------------------------------------------------------------------------------------


class Terminal:
    """A command on a terminal of its own."""

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
        def look():
            if select.select([self.fd], [], [], 0.01)[0]:
                with contextlib.suppress(OSError):  # the other end is closed
                    self.out += os.read(self.fd, 65536).decode(errors="replace")
            return self.out.count(text) >= times

        eventually(look, f"{text!r} in {self.out!r}")


RESTORED = "\x1b[?1049l"


def test_ctrl_c_ends_it_and_leaves_the_terminal_as_it_was(program, path):
    with Terminal("top", path, "--interval", "0.1") as terminal:
        terminal.shows(f"pid {program.pid}", times=3)
        terminal.running.send_signal(signal.SIGINT)
        terminal.shows(RESTORED)
        assert terminal.running.wait(PATIENCE_S) == 0
        assert "Traceback" not in terminal.out and "interrupted" not in terminal.out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_leaves_the_terminal_as_it_was(number, program, path):
    with Terminal("top", path, "--interval", "0.1") as terminal:
        terminal.shows(f"pid {program.pid}", times=3)
        terminal.running.send_signal(number)
        terminal.shows(RESTORED)
        assert terminal.running.wait(PATIENCE_S) == 128 + number
        assert "Traceback" not in terminal.out


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_without_a_cursor_is_shown_one_look(term, program, path):
    with Terminal("top", path, "--interval", "0.1", term=term) as terminal:
        terminal.shows("requests", times=2)
        assert terminal.running.wait(PATIENCE_S) == 0
        assert "\x1b[?" not in terminal.out


def test_colours_on_request_make_no_terminal_of_a_file(program, path):
    told = subprocess.run(
        [sys.executable, "-m", "hwheel", "top", path, "--interval", "0.1"],
        capture_output=True,
        text=True,
        env={**environment(), "FORCE_COLOR": "1"},
        timeout=PATIENCE_S,
    )
    assert (told.returncode, told.stderr, told.stdout.count(f"pid {program.pid}")) == (0, "", 1)
    assert "\x1b[1m" in told.stdout and "\x1b[?" not in told.stdout


def test_when_the_program_ends_it_says_so(program, path):
    with Terminal("top", path, "--interval", "0.1", columns=120) as terminal:
        terminal.shows(f"pid {program.pid}", times=2)
        program.stdin.close()
        terminal.shows(f"The program has ended (pid {program.pid}).")
        assert terminal.running.wait(PATIENCE_S) == 0
        assert terminal.out.index(RESTORED) < terminal.out.index("The program has ended")


def test_what_does_not_fit_is_said(path):
    timers = [ManualTimer(f"timer {number}") for number in range(9)]
    with hwheel.live.serve(path, *timers), Terminal("top", path, "--interval", "0.1", lines=24) as terminal:
        terminal.shows("more where the terminal is higher", times=2)
        assert all(timer.name in terminal.out for timer in timers)


class Order(DelayedOperation):
    def try_complete(self):
        return False


def test_purgatories_have_a_table_and_a_program_that_is_silent_is_told(path):
    from rich.console import Console

    from hwheel.cli.top.draw import Page

    with DelayedOperationPurgatory("orders") as orders:
        orders.try_complete_else_watch(Order(60_000), ["tea", "jam"])
        with hwheel.live.serve(path, orders):
            look = live_snapshot(path)
    console = Console(width=120, file=io.StringIO())
    console.print(Page(console).draw(look, {}, path, "does not answer"))
    lines = console.file.getvalue().splitlines()
    assert lines[0].rstrip().endswith("does not answer")
    (heads,) = (line.split() for line in lines if line.strip().startswith("purgatory"))
    rows = [line.split() for line in lines if line.strip().startswith("orders")]
    told = [dict(zip(heads, row, strict=True)) for row in rows if len(row) == len(heads)]
    assert any((row["delayed"], row["watched"]) == ("1", "2") for row in told)


def test_what_is_not_shown_is_not_drawn(path, monkeypatch):
    timers = [ManualTimer() for _ in range(50)]
    with hwheel.live.serve(path, *timers):
        look = live_snapshot(path)
    from rich.console import Console

    from hwheel.cli.top.draw import Page

    drawn = []
    page = Page(Console(width=80))
    monkeypatch.setattr(page, "_detail", lambda *args, detail=page._detail: drawn.append(args) or detail(*args))
    page.draw(look, {}, path, lines=100)
    assert 5 < len(drawn) < 20
    for lines in range(60, 80):  # of some of these there is room for a part of a timer, which is not shown
        page.draw(look, {}, path, lines=lines)
        console = Console(width=80, height=lines, file=io.StringIO())
        console.print(page.draw(look, {}, path, lines=lines))
        assert console.file.getvalue().count("\n") <= lines


# --- its parts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["place", "rates", "draw"])
def test_the_examples_in_the_docstrings_are_true(module):
    result = doctest.testmod(importlib.import_module(f"hwheel.cli.top.{module}"))
    assert result.attempted and not result.failed


def test_a_path_that_looks_like_a_port_is_the_file_if_there_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert place_of("9000").port == 9000
    (tmp_path / "9000").touch()
    assert place_of("9000").path == "9000"


def test_the_path_of_a_url_is_sent_as_it_has_to_be():
    assert place_of("http://127.0.0.1:9000/a b/é?x").page == "/a%20b/%C3%A9/live.json"
    assert place_of("http://127.0.0.1:9000/a%20b/live.json").page == "/a%20b/live.json"


def test_a_url_without_a_scheme_of_ours_is_refused():
    with pytest.raises(CommandError, match="is no address"):
        place_of("ftp://a:1/")


def looked(time_s, pid=1, **counters):
    zero = {"added": 0, "cancelled": 0, "expired": 0, "wakeups": 0}
    late = {"histogram_us": counters.pop("steps", [])}
    return {"time": time_s, "pid": pid, "timers": [{"name": "a", **zero, **counters, "lateness": late}]}


def test_rates_are_by_the_programs_own_clock():
    before = looked(10.0, added=5, steps=[[100, 7], [900, 1]])
    after = looked(12.0, added=25, expired=2, wakeups=1, steps=[[100, 8], [900, 1], [5000, 1]])
    rates = rates_between(before, after)["a"]
    assert rates == (10.0, 0.0, 1.0, 0.5, 0.1, 5.0)
    assert rates_between(after, looked(13.0, added=25, expired=2, wakeups=1))["a"].late_p50_ms is None


@pytest.mark.parametrize("after", [looked(2.0, pid=2, added=5), looked(1.0, added=5), looked(2.0, added=1)])
def test_another_program_or_timer_has_no_rates_yet(after):
    assert rates_between(looked(1.0, added=2), after) == {}
