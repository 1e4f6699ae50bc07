"""The gunicorn example of docs/processes.md, with and without --preload: under load, with a reload and a killed worker.

Each worker has its own timers. The pending timers of a worker that ends run.
"""

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from page_examples import commands_of, examples_of
from sampling import scaled
from servers import Load, Server

pytest.importorskip("gunicorn")
PAGE = Path(__file__).parents[2] / "docs/processes.md"
[COMMAND] = commands_of(PAGE, "gunicorn")

# A wrapper of the page's application. It logs the runs of its timers, and adds a pending timer for each request.
# A timer that is added at import belongs to the importing process.
PROBE = """
import json, os, threading, time
from wsgi import application as page, timer

IMPORTED_IN = os.getpid()

def note(*words):
    with open("notes", "a") as file:        # short lines, so that each write is atomic
        file.write(" ".join(map(str, [os.getpid(), *words])) + "\\n")

timer.call_every(0.1, note, "import")

def application(environ, start_response):
    number = environ["PATH_INFO"].strip("/")
    if not number:
        return page(environ, start_response)
    timer.call_later(3600, note, "request", number)
    ran, began = threading.Event(), time.monotonic()
    timer.call_later(0.02, ran.set)
    has_run = ran.wait(60)
    elapsed_s = time.monotonic() - began
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([os.getpid(), IMPORTED_IN, has_run and elapsed_s >= 0.02]).encode()]
"""


@pytest.fixture
def serve(tmp_path, short_path):
    def start(*, preload):
        for example in examples_of(PAGE):
            if example.file:
                (tmp_path / example.file).write_text(example.code)
        (tmp_path / "probe.py").write_text(PROBE)
        words = [word for word in COMMAND[1:-1] if preload or word != "--preload"]
        assert COMMAND[-1] == "wsgi:application"
        path = short_path / "socket"
        arguments = ["-m", *COMMAND[:1], *words, "--bind", f"unix:{path}", "probe:application"]
        return Server(arguments, tmp_path, path)

    return start


@pytest.mark.parametrize("preload", [False, True], ids=["without preload", "with preload"])
def test_workers_have_their_own_timers_and_lose_none_when_they_are_replaced(serve, preload, tmp_path):
    with serve(preload=preload) as server:
        server.wait_for(lambda: server.body_of("/") == b"...", "a response of the page's application")
        killed = []
        with Load(server) as load:
            for _ in range(scaled(2)):
                load.wait_for_progress()
                server.send_signal(signal.SIGHUP)
                load.wait_for_progress()
            killed.append(json.loads([*load.answered.values()][-1])[0])
            before = len(load.answered)
            os.kill(killed[0], signal.SIGKILL)
            load.wait_for_progress()
            server.wait_for(lambda: server.log.count("has its own timer") > 4, "the page's heartbeat")
        assert server.stop() == 0
        log = server.log
    assert "Traceback" not in log and "TIMEOUT" not in log, log
    answered = {number: json.loads(body) for number, body in load.answered.items()}
    workers = {pid for pid, _, _ in answered.values()}
    assert all(on_time for _, _, on_time in answered.values())
    assert len(workers) > 3, "a reload has started new workers"
    assert any(pid not in killed for number, (pid, _, _) in answered.items() if number > before)
    notes = [line.split() for line in (tmp_path / "notes").read_text().splitlines()]
    at_import = {int(words[0]) for words in notes if words[1] == "import"}
    if preload:
        assert {imported for _, imported, _ in answered.values()} == {server.pid} == at_import
    else:
        assert all(pid == imported for pid, imported, _ in answered.values())
        assert server.pid not in at_import and at_import & workers
    ran = Counter((int(pid), int(number)) for pid, event, *rest in notes if event == "request" for number in rest)
    assert not [one for one, count in ran.items() if count > 1]
    left = {(pid, number) for number, (pid, _, _) in answered.items() if pid not in killed}
    assert left and left <= ran.keys(), "a worker that ended has lost timers"
