"""The live look of programs of their own: their end, a kill, a fork."""

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
    """start(code, address): a running program, which has begun to serve, and its address."""
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
        said = program.stdout.readline().strip()
        return program, said if "/" in said else ("127.0.0.1", int(said))

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


def test_a_program_is_looked_at_and_ends_without_a_word(start, address, short_path):
    program, where = start("sys.stdin.read()", address)
    told = live_snapshot(where)
    assert told["pid"] == program.pid and told["program"] == "program0.py"
    assert [(timer["name"], timer["pending"]) for timer in told["timers"]] == [("requests", 1)]
    assert ended(program) == (0, "", "")  # with its timer pending, and its server open
    assert not (short_path / "live.sock").exists()


@pytest.mark.parametrize("run", ["app", "app.pyz", "-m app", "-m package"])
def test_a_program_is_called_what_its_user_calls_it(run, tmp_path):
    code = "import hwheel.live.look\nprint(hwheel.live.look.program())\n"
    for directory in ("app", "package"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "__main__.py").write_text(code)
    (tmp_path / "package" / "__init__.py").touch()
    zipapp.create_archive(tmp_path / "app", tmp_path / "app.pyz")
    command = [sys.executable, *run.split()]
    env = {**environment(), "PYTHONPATH": str(tmp_path)}
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (told.stdout, told.stderr) == (f"{run}\n", "")


def test_what_a_killed_program_leaves_is_no_obstacle(start, short_path):
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
    # In the child it is closed, and closing it again takes nothing from the parent.
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


def test_after_a_fork_the_parent_answers_alone_and_the_child_for_itself(start, address):
    program, where = start(FORK, address)
    child = ("127.0.0.1", int(program.stdout.readline()))
    told = live_snapshot(child)
    assert told["pid"] != program.pid and [timer["name"] for timer in told["timers"]] == ["child's own"]
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


def test_a_child_keeps_no_port_and_no_socket_of_its_parent(start, address):
    program, where = start(CHILD_OUTLIVES, address)
    assert program.stdout.readline() == "closed\n"
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        http_request(where)


FORK_UNDER_LOOKS = """
import http.client, socket, threading

path, stop, looks = sys.argv[1], threading.Event(), []


def look():
    while not stop.is_set():
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(60)
        connection.sock.connect(path)
        connection.request("GET", "/live.json")
        assert connection.getresponse().read()
        connection.close()
        looks.append(1)


threads = [threading.Thread(target=look) for _ in range(3)]
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
assert looks
server.close()
print("well")
"""


def test_forks_under_looks(start, short_path):
    program, _ = start(FORK_UNDER_LOOKS, short_path / "live.sock")
    assert ended(program) == (0, "well\n", "")
