"""A web server in processes of its own, asked over a Unix socket. Where one of them hangs it says where."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading

from programs import PATIENCE_S, environment
from waiting import wait_until


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Server:
    """`python -m` with these arguments, in a folder; the socket is what the caller told it to listen at."""

    def __init__(self, arguments, folder, at):
        self.at = at
        self._log = (folder / "log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its processes are known by their group
            env={
                **environment(),
                "PYTHONPATH": str(folder),
                "PYTHONFAULTHANDLER": "1",
                "PYTHONWARNINGS": "ignore::DeprecationWarning",  # of forks with threads
                "HOME": str(folder),  # gunicorn leaves a socket there
            },
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._process.poll() is None:
            self._process.kill()
        self._to_all(signal.SIGKILL)
        self._process.wait()
        self._log.close()

    @property
    def pid(self):
        return self._process.pid

    @property
    def log(self):
        self._log.seek(0)
        return self._log.read()

    def _to_all(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def hangs(self, what):
        """Fails, with what all threads of all its processes are at."""
        self._to_all(signal.SIGABRT)
        wait_until(lambda: self._process.poll() is not None, 10)
        raise AssertionError(f"{what}\n{self.log}")

    def ask(self, path="/"):
        """(status, body) of a GET. OSError, HTTPException: no answer, or half of one."""
        connection = Connection(self.at)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except TimeoutError:
            self.hangs(f"no answer to {path}")
        finally:
            connection.close()

    def answers(self, path="/"):
        """The body, or None if nobody is there to give one."""
        try:
            status, body = self.ask(path)
        except (OSError, http.client.HTTPException):
            return None
        assert status == 200, (path, status, self.log)
        return body

    def wait_for(self, condition, what):
        if not wait_until(condition, PATIENCE_S, look_every_s=0.05):
            self.hangs(f"{what} did not come about")

    def tell(self, number):
        self._process.send_signal(number)

    def end(self, number=signal.SIGTERM):
        """Its exit status after a signal."""
        self.tell(number)
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.hangs("it does not end")


class Load:
    """Threads that ask a server as fast as it answers, each time for another number. `answered`: number -> the body."""

    def __init__(self, server, threads=4):
        self.answered = {}
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(i, threads)) for i in range(threads)]

    def _ask(self, number, step):
        while not self._stop.is_set():
            if (body := self._server.answers(f"/{number}")) is not None:
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

    def goes_on(self):
        """Comes back when some more have been answered."""
        enough = len(self.answered) + 50
        self._server.wait_for(lambda: len(self.answered) > enough, "an answer")
