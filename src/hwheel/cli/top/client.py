"""The address of a program that serves snapshots, and the HTTP client."""

import http.client
import json
import os
import re
import socket
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from hwheel.cli.common import CommandError
from hwheel_core import HwheelError

PATIENCE_S = 5.0
MAX_BYTES = 64_000_000


# --- addresses --------------------------------------------------------------------------------------------------------


class Address(NamedTuple):
    """The path of a Unix socket, or a host and a port. url_path: where the snapshots are on the server."""

    path: str | None
    host: str
    port: int
    url_path: str = "/live.json"

    def __str__(self) -> str:
        if self.path is not None:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse ADDRESS: a port, host:port, a URL, or a path.

    >>> [str(parse_address(text)) for text in ("9000", "localhost:9000", "[::1]:9000", "run/a.sock")]
    ['127.0.0.1:9000', 'localhost:9000', '[::1]:9000', 'run/a.sock']
    >>> parse_address("http://127.0.0.1:9000/timers/").url_path
    '/timers/live.json'
    """
    if not text:
        raise CommandError("ADDRESS must not be empty")
    if "://" in text:
        return _parse_url(text)
    if not os.path.exists(text):
        found = re.fullmatch(r"(?:(\[[\da-fA-F:.]+\]|[\w.-]+)?:)?(\d{1,99})", text)
        if found:
            return Address(None, (found[1] or "127.0.0.1").strip("[]"), _check_port(int(found[2])))
    return Address(text, "", 0)


def _parse_url(text: str) -> Address:
    try:
        url = urlsplit(text)
        port = url.port or 80
    except ValueError as error:
        raise CommandError(f"{text}: {error}") from None
    if url.scheme != "http" or not url.hostname:
        raise CommandError(f"ADDRESS must be a path, a port, host:port, or http://host:port, not {text}")
    directory = url.path if url.path.endswith("/") else f"{url.path}/"
    url_path = url.path if url.path.endswith("/live.json") else f"{directory}live.json"
    return Address(None, url.hostname, _check_port(port), quote(url_path, safe="/%"))


def _check_port(port: int) -> int:
    if not 0 < port < 65536:
        raise CommandError(f"a port must be from 1 to 65535, not {port}")
    return port


# --- requests ---------------------------------------------------------------------------------------------------------


class EndedError(HwheelError):
    """The program answered before, and now nothing listens at its address."""


class SilentError(HwheelError):
    """The program answered before, and now it does not respond."""


class Connection(http.client.HTTPConnection):
    """An HTTP connection to a port or to a Unix socket."""

    def __init__(self, address: Address) -> None:
        super().__init__(address.host or "localhost", address.port or None, timeout=PATIENCE_S)
        self.path = address.path

    def connect(self) -> None:
        if self.path is None:
            super().connect()
            return
        if not hasattr(socket, "AF_UNIX"):
            raise CommandError("this system has no Unix sockets: use a port")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self.path)


class Program:
    """A running program that serves snapshots of its timers. pid: None until the first snapshot."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.pid: int | None = None

    def snapshot(self) -> dict[str, Any]:
        """Return a snapshot of the program's timers.

        Raises:
            CommandError: No program has answered at the address yet.
            EndedError, SilentError: The program answered before.
        """
        try:
            snapshot = self._get()
        except TimeoutError:
            if self.pid is not None:
                raise SilentError from None
            advice = "check that the program has called hwheel.live.serve()"
            raise CommandError(f"{self.address}: no answer within {PATIENCE_S:g} s\n{advice}") from None
        except UnicodeError:
            raise CommandError(f"{self.address}: invalid host name") from None
        except (OSError, http.client.HTTPException) as error:
            if self.pid is not None:
                raise EndedError from None
            raise CommandError(f"{self.address}: {_reason(error)}\n{self._advice(error)}") from None
        self.pid = snapshot["pid"]
        return snapshot

    def _get(self) -> dict[str, Any]:
        connection = Connection(self.address)
        try:
            connection.request("GET", self.address.url_path)
            response = connection.getresponse()
            body = response.read(MAX_BYTES)
        finally:
            connection.close()
        if response.status == 403:
            raise CommandError(f"{self.address}: refused\nuse localhost or the numeric address")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        is_snapshot = isinstance(found, dict) and {"hwheel", "pid", "time", "timers"} <= found.keys()
        if response.status != 200 or not is_snapshot:
            raise CommandError(f"{self.address}: the server is not hwheel.live.serve() (status {response.status})")
        return found  # type: ignore[no-any-return]

    def _advice(self, error: Exception) -> str:
        if isinstance(error, PermissionError):
            return "only the owner can use the socket: run this command as the user of the program"
        argument = repr(self.address.path) if self.address.path is not None else self.address.port
        return f"the program must call hwheel.live.serve({argument})"


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such socket"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, http.client.HTTPException) or isinstance(error, ConnectionError):
        return "the server does not speak HTTP, or has just ended"
    return getattr(error, "strerror", None) or str(error)
