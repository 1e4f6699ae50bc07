"""The lines of docs/run.md for servers and other software, each with the real one: its timers are on the wheel."""

import json
import re
import shlex
import signal
from pathlib import Path

import pytest

from programs import PATIENCE_S, run_python
from servers import Server

PAGE = Path(__file__).parents[2] / "docs/run.md"
LINES = dict(re.findall(r"^\| ([\w -]+?) \| `([^`]+)` \|$", PAGE.read_text().partition("## Servers")[2], re.MULTILINE))
# Software -> its option that makes it listen on the Unix socket {}.
SERVERS = {
    "uvicorn": "--uds {}",
    "gunicorn": "--bind unix:{}",
    "gunicorn with ASGI": "--bind unix:{}",
    "hypercorn": "--bind unix:{}",
    "granian": "--uds {}",
    "aiohttp": "path='{}'",
}
MODULES = {"gunicorn with ASGI": "gunicorn"}
APPLICATION = """
import asyncio, json, threading
from hwheel.asyncio import TimerHandle

async def probe():
    handle = asyncio.get_running_loop().call_later(60, print)
    handle.cancel()
    try:
        await asyncio.wait_for(asyncio.sleep(60), 0.01)
    except TimeoutError:
        return [type(handle) is TimerHandle, threading.Timer.__module__]

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})
        return
    body = json.dumps(await probe()).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})

def application(environ, start_response):
    expired = threading.Event()
    timer = threading.Timer(0.01, expired.set)
    timer.start()
    found = [expired.wait(60), type(timer).__module__]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]
"""
AIOHTTP = """
import hwheel.asyncio
from aiohttp import web
from app import probe

async def respond(request):
    return web.json_response(await probe())

app = web.Application()
app.add_routes([web.get("/", respond)])
"""
TASKS = """
import asyncio
from celery import Celery
from app import application, probe

app = Celery("tasks", broker_url="filesystem://", result_backend="file://.", broker_transport_options={
    "data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control"})

@app.task
def of_a_loop():
    return asyncio.run(probe())

@app.task
def of_a_thread():
    return application({}, lambda *_: None)[0].decode()
"""
CALL = "import json, tasks\nprint(json.dumps([tasks.{}.delay().get(timeout={}) for _ in range(2)]))"
TEST = """
import pytest
from app import probe

@pytest.mark.asyncio
async def test_loop():
    assert (await probe())[0]
"""


def server_arguments(software, folder, path):
    """Return the arguments of Python for the page's line, with the option for the socket."""
    option = SERVERS[software].format(path)
    if software == "aiohttp":
        (folder / "server.py").write_text(AIOHTTP + LINES[software].replace("(app,", f"(app, {option},"))
        return ["server.py"]
    first, *words = shlex.split(LINES[software])
    return ["-m", first, *words[:-1], *shlex.split(option), words[-1]]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)
    return tmp_path


def test_the_page_has_a_line_for_each():
    assert LINES.keys() == {*SERVERS, "Celery", "pytest-asyncio"}


@pytest.mark.parametrize("software", SERVERS)
def test_the_timers_of_a_server_are_on_the_wheel(software, folder, short_path):
    pytest.importorskip(MODULES.get(software, software))
    path = short_path / "socket"
    patched = LINES[software].startswith("hwheel run")
    with Server(server_arguments(software, folder, path), folder, path) as server:
        server.wait_for(lambda: server.body_of() is not None, "the first response")
        found = [json.loads(server.body_of()) for _ in range(4)]
        assert server.stop() in (0, -signal.SIGTERM)
        log = server.log
    assert found == [[True, "hwheel" if patched else "threading"]] * 4
    assert "Traceback" not in log, log


def test_the_timers_of_celery_tasks_are_on_the_wheel(folder):
    pytest.importorskip("celery")
    (folder / "tasks.py").write_text(TASKS)
    for name in ("queue", "control"):
        (folder / name).mkdir()
    arguments = ["-m", *shlex.split(LINES["Celery"]), "--concurrency", "2"]
    with Server(arguments, folder, None) as worker:
        for task, expected in {"of_a_loop": [True, "hwheel"], "of_a_thread": '[true, "hwheel"]'}.items():
            call = CALL.format(task, PATIENCE_S)
            done = run_python("-c", call, cwd=folder, env={"PYTHONPATH": str(folder)}, patience_s=2 * PATIENCE_S)
            assert done.status == 0, (done, worker.log)
            assert json.loads(done.out) == [expected] * 2
        assert worker.stop() == 0
        assert "Traceback" not in worker.log, worker.log


def test_the_tests_of_pytest_asyncio_run_on_the_wheel(folder):
    pytest.importorskip("pytest_asyncio")
    (folder / "conftest.py").write_text(f"import hwheel.asyncio\n\n{LINES['pytest-asyncio']}\n")
    (folder / "test_loop.py").write_text(TEST)
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(folder)}
    done = run_python("-m", "pytest", "-q", "-p", "pytest_asyncio.plugin", cwd=folder, env=env)
    assert done.status == 0 and "1 passed" in done.out, done
    (folder / "conftest.py").unlink()
    assert "1 failed" in run_python("-m", "pytest", "-q", "-p", "pytest_asyncio.plugin", cwd=folder, env=env).out
