"""Live servers of other processes: exit, kill, and fork."""

import os
import signal
import subprocess
import sys
import zipapp

import pytest

from programs import PATIENCE_S, environment
from servers import http_request, live_snapshot

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")

BEGIN = """\
import faulthandler, os, signal, sys, time
faulthandler.dump_traceback_later(100, exit=True)
import hwheel.live
from hwheel import SystemTimer

timer = SystemTimer("requests")
timer.call_later(3600, print)
server = hwheel.live.serve(sys.argv[1] if "/" in sys.argv[1] else int(sys.argv[1]))
print(server.address if "/" in sys.argv[1] else server.address[1], flush=True)
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a program with a live server, and returns the process and the address."""
    started = []

    def go(code, address):
        file = tmp_path / f"program{len(started)}.py"
        file.write_text(BEGIN + code)
        program = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", file, str(address)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        started.append(program)
        address = program.stdout.readline().strip()
        return program, address if "/" in address else ("127.0.0.1", int(address))

    yield go
    for program in started:
        program.kill()
        program.communicate()


@pytest.fixture(params=["socket", "port"])
def address(request, short_path):
    return str(short_path / "live.sock") if request.param == "socket" else 0


def ended(program):
    out, err = program.communicate(timeout=PATIENCE_S)
    return program.returncode, out, err


def test_a_program_with_a_server_exits_without_output(start, address, short_path):
    program, where = start("sys.stdin.read()", address)
    snapshot = live_snapshot(where)
    assert snapshot["pid"] == program.pid and snapshot["program"] == "program0.py"
    assert [(timer["name"], timer["pending"]) for timer in snapshot["timers"]] == [("requests", 1)]
    assert ended(program) == (0, "", "")  # with a pending timer and an open server
    assert not (short_path / "live.sock").exists()


@pytest.mark.parametrize("run", ["app", "app.pyz", "-m app", "-m package"])
def test_the_program_name_is_the_file_or_module(run, tmp_path):
    code = "import hwheel.live.snapshot\nprint(hwheel.live.snapshot.program_name())\n"
    for directory in ("app", "package"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "__main__.py").write_text(code)
    (tmp_path / "package" / "__init__.py").touch()
    zipapp.create_archive(tmp_path / "app", tmp_path / "app.pyz")
    command = [sys.executable, *run.split()]
    env = {**environment(), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.stdout, done.stderr) == (f"{run}\n", "")


def test_the_socket_of_a_killed_program_is_replaced(start, short_path):
    path = short_path / "live.sock"
    killed, _ = start("time.sleep(100)", path)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert path.exists()
    program, where = start("sys.stdin.read()", path)
    assert live_snapshot(where)["pid"] == program.pid
    assert ended(program) == (0, "", "")


def test_ctrl_c_ends_a_program_that_serves(start, address, short_path):
    code = "try: print('sleeps', flush=True); time.sleep(99)\nexcept KeyboardInterrupt: server.close(); print('closed')"
    program, where = start(code, address)
    assert program.stdout.readline() == "sleeps\n"
    live_snapshot(where)
    program.send_signal(signal.SIGINT)
    assert ended(program) == (0, "closed\n", "")
    assert not (short_path / "live.sock").exists()


FORK = """
pid = os.fork()
if pid == 0:
    # In the child the server is closed, and close() does not affect the parent.
    assert server.closed
    server.close()
    if os.path.sep in sys.argv[1]:
        assert os.path.exists(sys.argv[1])
    own = SystemTimer("child's own")
    with hwheel.live.serve(0, own) as again:
        print(again.address[1], flush=True)
        sys.stdin.readline()
    print("child ends", flush=True)
    sys.stdin.readline()
    os._exit(0)
sys.stdin.readline()
print("parent", flush=True)
os.waitpid(pid, 0)
"""


def test_after_a_fork_parent_and_child_have_separate_servers(start, address):
    program, where = start(FORK, address)
    child = ("127.0.0.1", int(program.stdout.readline()))
    snapshot = live_snapshot(child)
    assert snapshot["pid"] != program.pid and [timer["name"] for timer in snapshot["timers"]] == ["child's own"]
    assert {live_snapshot(where)["pid"] for _ in range(20)} == {program.pid}


CHILD_OUTLIVES = """
reader, writer = os.pipe()
pid = os.fork()
if pid == 0:
    os.write(writer, b"here")
    sys.stdin.read()
    os._exit(0)
os.read(reader, 4)
server.close()
print("closed", flush=True)
sys.stdin.readline()
os._exit(0)
"""


def test_a_child_does_not_keep_the_address_of_its_parent_open(start, address):
    program, where = start(CHILD_OUTLIVES, address)
    assert program.stdout.readline() == "closed\n"
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        http_request(where)


FORK_DURING_REQUESTS = """
import http.client, socket, threading

path, stop, responses = sys.argv[1], threading.Event(), []


def send_requests():
    while not stop.is_set():
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(60)
        connection.sock.connect(path)
        connection.request("GET", "/live.json")
        assert connection.getresponse().read()
        connection.close()
        responses.append(1)


threads = [threading.Thread(target=send_requests) for _ in range(3)]
for thread in threads:
    thread.start()
for number in range(20):
    pid = os.fork()
    if pid == 0:
        own = f"{path}.{number}"
        with hwheel.live.serve(own, SystemTimer("child")) as again:
            found = os.path.exists(own)
        os._exit(0 if found and not os.path.exists(own) and os.path.exists(path) else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
assert responses
server.close()
print("done")
"""


def test_forks_during_requests(start, short_path):
    program, _ = start(FORK_DURING_REQUESTS, short_path / "live.sock")
    assert ended(program) == (0, "done\n", "")
