"""Where a program shows its timers: the argument ADDRESS."""

import os
import re
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from hwheel.cli.common import CommandError


class Place(NamedTuple):
    """A Unix socket's path, or a host and a port; `page`: under which path of a URL."""

    path: str | None
    host: str
    port: int
    page: str = "/live.json"

    def __str__(self) -> str:
        if self.path is not None:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def place_of(text: str) -> Place:
    """What ADDRESS says: a port, host:port, a URL, or a path.

    >>> str(place_of("9000")), str(place_of("localhost:9000")), str(place_of("[::1]:9000")), str(place_of("run/a.sock"))
    ('127.0.0.1:9000', 'localhost:9000', '[::1]:9000', 'run/a.sock')
    >>> place_of("http://127.0.0.1:9000/timers/").page
    '/timers/live.json'
    """
    if not text:
        raise CommandError("ADDRESS must not be empty")
    if "://" in text:
        return place_of_url(text)
    if not os.path.exists(text):
        found = re.fullmatch(r"(?:(\[[\da-fA-F:.]+\]|[\w.-]+)?:)?(\d{1,99})", text)
        if found:
            return Place(None, (found[1] or "127.0.0.1").strip("[]"), checked_port(int(found[2])))
    return Place(text, "", 0)


def place_of_url(text: str) -> Place:
    """What a URL says."""
    try:
        url = urlsplit(text)
        port = url.port or 80
    except ValueError as error:
        raise CommandError(f"{text}: {error}") from None
    if url.scheme != "http" or not url.hostname:
        raise CommandError(f"{text} is no address: a path, a port, host:port, or http://host:port is wanted")
    directory = url.path if url.path.endswith("/") else f"{url.path}/"
    page = url.path if url.path.endswith("/live.json") else f"{directory}live.json"
    return Place(None, url.hostname, checked_port(port), quote(page, safe="/%"))


def checked_port(port: int) -> int:
    """The port, if there is such a one."""
    if not 0 < port < 65536:
        raise CommandError(f"a port is from 1 to 65535, not {port}")
    return port
