"""The uvicorn examples of docs/processes.md: one process, workers that are replaced under load, and --reload.

The process that starts uvicorn has created and used timers before.
"""

import signal
from pathlib import Path

import pytest

from page_examples import commands_of, examples_of
from sampling import at_least
from servers import Load, Server

pytest.importorskip("uvicorn")
PAGE = Path(__file__).parents[2] / "docs/processes.md"
COMMANDS = at_least(4, commands_of(PAGE, "uvicorn"))

# A program that uses timers and then starts uvicorn with the arguments of the page's command. With multiprocessing's
# spawn, each worker imports it again.
PROGRAM = """
import os, sys, threading
import uvicorn.main
from hwheel import SystemTimer, Timer

def note(name):
    with open(name, "a") as file:
        file.write(f"{os.getpid()}\\n")

before = SystemTimer("before")
if __name__ == "__main__":
    before.call_every(0.05, note, "beats")
    far_off = Timer(3600, note, ["never"])
    far_off.daemon = True
    far_off.start()
    try:
        uvicorn.main.main()
    finally:
        before.close()
else:
    before.call_later(0, note, "workers")
"""
# A wrapper of the page's application. It sends its pid, and adds a pending timer for each request.
PROBE = """
import os
import app as page

VERSION = 1

def note(number):
    with open("ran", "a") as file:
        file.write(f"{number}\\n")

async def app(scope, receive, send):
    async def send_with_pid(message):
        if message["type"] == "http.response.body":
            message["body"] = f"{VERSION} {os.getpid()} ".encode() + message["body"]
        await send(message)
    if scope["type"] == "http" and (number := scope["path"].strip("/")):
        page.timer.call_later(3600, note, number)
    await page.app(scope, receive, send_with_pid)
"""


@pytest.fixture
def serve(tmp_path, short_path):
    def start(command):
        for example in examples_of(PAGE):
            if example.file:
                (tmp_path / example.file).write_text(example.code)
        (tmp_path / "program.py").write_text(PROGRAM)
        (tmp_path / "probe.py").write_text(PROBE)
        assert command[-1] == "app:app"
        path = short_path / "socket"
        return Server(["program.py", *command[1:-1], "--uds", path, "probe:app"], tmp_path, path)

    return start


def command_with(*words):
    [found] = [
        command
        for command in COMMANDS
        if {*words} == {*command} & {"--workers", "--reload", "hwheel.asyncio:EventLoop"}
    ]
    return found


def pids_of(load):
    return {int(body.split()[1]) for body in load.answered.values()}


def lines_of(file):
    return file.read_text().split() if file.exists() else []


def check_end(server, load, folder):
    assert server.stop() in (0, -signal.SIGTERM)
    log = server.log
    assert "Traceback" not in log and "rror" not in log, log
    assert all(body.endswith(b" ...") for body in load.answered.values())
    ran = lines_of(folder / "ran")
    assert len(ran) == len({*ran})
    assert {str(number) for number in load.answered} <= {*ran}, "a worker that ended has lost timers"
    assert {*lines_of(folder / "beats")} == {str(server.pid)}, "the timer that was added before belongs to one process"
    assert lines_of(folder / "never") == []


@pytest.mark.parametrize("words", [["hwheel.asyncio:EventLoop"], []], ids=["asyncio", "uvloop"])
def test_one_process(serve, tmp_path, words):
    if not words:
        pytest.importorskip("uvloop")
    with serve(command_with(*words)) as server:
        with Load(server) as load:
            load.wait_for_progress()
        assert pids_of(load) == {server.pid}
        check_end(server, load, tmp_path)


def test_workers_are_replaced_under_load(serve, tmp_path):
    with serve(command_with("hwheel.asyncio:EventLoop", "--workers")) as server:
        with Load(server) as load:
            load.wait_for_progress()
            first = pids_of(load)
            server.send_signal(signal.SIGHUP)
            server.wait_for(lambda: len(pids_of(load) - first) >= 4, "four new workers")
        assert server.pid not in pids_of(load)
        check_end(server, load, tmp_path)
        assert {*map(int, lines_of(tmp_path / "workers"))} >= pids_of(load)


def test_a_changed_application_is_reloaded(serve, tmp_path):
    with serve(command_with("hwheel.asyncio:EventLoop", "--reload")) as server:
        with Load(server) as load:
            for version in (2, 3):
                load.wait_for_progress()
                changed = (
                    (tmp_path / "probe.py").read_text().replace(f"VERSION = {version - 1}", f"VERSION = {version}")
                )
                (tmp_path / "probe.py").write_text(changed)
                server.wait_for(
                    lambda: any(body.startswith(b"%d" % version) for body in [*load.answered.values()]),
                    "a response of the new version",
                )
        assert len(pids_of(load)) >= 3 and server.pid not in pids_of(load)
        check_end(server, load, tmp_path)
