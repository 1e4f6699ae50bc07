"""Asks a program for a look at its timers."""

import http.client
import json
import socket
from typing import Any

from hwheel.cli.common import CommandError
from hwheel.cli.top.place import Place
from hwheel_core import HwheelError

PATIENCE_S = 5.0
MOST_BYTES = 64_000_000


class EndedError(HwheelError):
    """A program that has answered before does not listen any more."""


class SilentError(HwheelError):
    """A program that has answered before listens, and says nothing."""


class Connection(http.client.HTTPConnection):
    """To a port, or to a Unix socket."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.host or "localhost", place.port or None, timeout=PATIENCE_S)
        self.path = place.path

    def connect(self) -> None:
        """What http.client calls."""
        if self.path is None:
            super().connect()
            return
        if not hasattr(socket, "AF_UNIX"):
            raise CommandError("there are no Unix sockets here: use a port")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self.path)


class Program:
    """A program that shows its timers."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.pid: int | None = None  # once it has answered

    def look(self) -> dict[str, Any]:
        """What there is to see. CommandError: nothing, from the beginning; EndedError, SilentError: not any more."""
        try:
            seen = self._ask()
        except TimeoutError:
            if self.pid is not None:
                raise SilentError from None
            raise CommandError(
                f"{self.place}: no answer within {PATIENCE_S:g} s\nis it a program that has called hwheel.live.serve()?"
            ) from None
        except UnicodeError:
            raise CommandError(f"{self.place}: that is no name of a host") from None
        except (OSError, http.client.HTTPException) as error:
            if self.pid is not None:
                raise EndedError from None
            raise CommandError(f"{self.place}: {what_is_wrong(error)}\n{self._advice(error)}") from None
        self.pid = seen["pid"]
        return seen

    def _ask(self) -> dict[str, Any]:
        connection = Connection(self.place)
        try:
            connection.request("GET", self.place.page)
            answer = connection.getresponse()
            body = answer.read(MOST_BYTES)
        finally:
            connection.close()
        if answer.status == 403:
            raise CommandError(f"{self.place}: refused\ngive the address in figures, or localhost")
        try:
            seen = json.loads(body)
        except (ValueError, RecursionError):
            seen = None
        if answer.status != 200 or not isinstance(seen, dict) or not {"hwheel", "pid", "time", "timers"} <= seen.keys():
            raise CommandError(f"{self.place}: what answers there is no hwheel.live.serve() (status {answer.status})")
        return seen

    def _advice(self, error: Exception) -> str:
        if isinstance(error, PermissionError):
            return "the socket is its owner's alone: run this as the user who runs the program"
        where = repr(self.place.path) if self.place.path is not None else self.place.port
        return f"a program shows its timers there after hwheel.live.serve({where})"


def what_is_wrong(error: Exception) -> str:
    """In the words of who asks."""
    if isinstance(error, FileNotFoundError):
        return "there is no such socket"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    if isinstance(error, http.client.HTTPException) or isinstance(error, ConnectionError):
        return "what answers there speaks no HTTP, or has just ended"
    return getattr(error, "strerror", None) or str(error)
