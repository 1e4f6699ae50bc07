"""HTTP requests to a live server or a web server, web servers in processes of their own, and free ports."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import NamedTuple

from programs import PATIENCE_S, environment
from waiting import wait_until

HTTP_TIMEOUT_S = 60


class HttpResponse(NamedTuple):
    status: int
    headers: dict
    body: bytes


def open_connection(address, timeout_s=HTTP_TIMEOUT_S):
    """Return a socket that is connected to the path of a Unix socket or to (host, port)."""
    if not isinstance(address, str):
        return socket.create_connection(address, timeout=timeout_s)
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(timeout_s)
    try:
        client.connect(address)
    except OSError:
        client.close()
        raise
    return client


def http_request(address, page="/live.json", method="GET", host=None, timeout_s=HTTP_TIMEOUT_S):
    """Send one request and return its HttpResponse. ``host`` replaces the Host header; "" omits it."""
    connection = http.client.HTTPConnection("localhost" if isinstance(address, str) else address[0], timeout=timeout_s)
    connection.sock = open_connection(address, timeout_s)
    try:
        connection.putrequest(method, page, skip_host=host is not None)
        if host:
            connection.putheader("Host", host)
        connection.endheaders()
        response = connection.getresponse()
        return HttpResponse(response.status, {**response.headers}, response.read())
    finally:
        connection.close()


def live_snapshot(address):
    """Return the snapshot that a live server sends."""
    response = http_request(address)
    assert response.status == 200, response
    return json.loads(response.body)


def free_ports(count):
    """Return ports of 127.0.0.1 that are free at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Server:
    """`python -m` with these arguments in a folder. The arguments make it listen on the Unix socket `path`.

    A server that hangs fails the test with the stacks of all its threads.
    """

    def __init__(self, arguments, folder, path):
        self.path = str(path)
        self._log = (folder / "log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # signals go to its process group
            env={
                **environment(),
                "PYTHONPATH": str(folder),
                "PYTHONFAULTHANDLER": "1",
                "PYTHONWARNINGS": "ignore::DeprecationWarning",  # about forks in a process with threads
                "HOME": str(folder),  # gunicorn leaves a socket there
            },
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._process.poll() is None:
            self._process.kill()
        self._signal_group(signal.SIGKILL)
        self._process.wait()
        self._log.close()

    @property
    def pid(self):
        return self._process.pid

    @property
    def log(self):
        self._log.seek(0)
        return self._log.read()

    def _signal_group(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def fail_with_stacks(self, message):
        """Abort all processes, which makes faulthandler write their stacks to the log, and fail."""
        self._signal_group(signal.SIGABRT)
        wait_until(lambda: self._process.poll() is not None, 10)
        raise AssertionError(f"{message}\n{self.log}")

    def get(self, page="/"):
        """Return (status, body). Raise OSError or HTTPException for no response or an incomplete one."""
        try:
            response = http_request(self.path, page, timeout_s=PATIENCE_S)
        except TimeoutError:
            self.fail_with_stacks(f"no response to {page}")
        return response.status, response.body

    def body_of(self, page="/"):
        """Return the body, or None if no process accepts the request."""
        try:
            status, body = self.get(page)
        except (OSError, http.client.HTTPException):
            return None
        assert status == 200, (page, status, self.log)
        return body

    def wait_for(self, condition, what):
        if not wait_until(condition, PATIENCE_S, look_every_s=0.05):
            self.fail_with_stacks(f"timed out waiting for {what}")

    def send_signal(self, number):
        self._process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        """Send a signal, and return the exit status."""
        self.send_signal(number)
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.fail_with_stacks("the server does not exit")


class Load:
    """Threads that send requests as fast as the server responds, each for another number.

    `answered` maps the number to the body.
    """

    def __init__(self, server, threads=4):
        self.answered = {}
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(i, threads)) for i in range(threads)]

    def _run(self, number, step):
        while not self._stop.is_set():
            if (body := self._server.body_of(f"/{number}")) is not None:
                self.answered[number] = body
            number += step

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_progress(self):
        """Wait until the server has answered 50 more requests."""
        enough = len(self.answered) + 50
        self._server.wait_for(lambda: len(self.answered) > enough, "a response")
