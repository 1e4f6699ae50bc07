"""The HTTP side of a live server: four pages, over HTTP/1.0, with one request per connection."""

import base64
import hashlib
import ipaddress
import json
import re
import socket
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import Any, Protocol

from hwheel.extras import MissingExtraError
from hwheel.live.snapshot import Sources, metrics_of, snapshot_of, timers_of
from hwheel.version import __version__

PAGE = files("hwheel.live").joinpath("page.html").read_text("utf-8")
PATIENCE_S = 5.0  # how long a client can pause
SEND_BUFFER = 65_536  # bytes; small, because send() waits until a third of the buffer is free
NOT_FOUND = "the pages are /, /live.json, /timers, and /metrics"


def hash_source(tag: str) -> str:
    """Return the source of a content security policy that allows only the page's own script or style."""
    (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; script-src {hash_source('script')}; style-src {hash_source('style')}; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def host_is_ours(host: str | None, own: str) -> bool:
    """Return True if the Host header names this server: localhost, a numeric address, or the server's own host.

    This stops DNS rebinding, where the domain of a hostile page resolves to this machine: the header then has that
    domain.
    """
    name = re.sub(r":\d*$", "", host or "").strip("[]").lower()
    if name in ("localhost", own.lower()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Server(Protocol):
    """The part of a server that its handlers use. host: None on a Unix socket."""

    sources: Sources

    @property
    def host(self) -> str | None: ...


class Handler(BaseHTTPRequestHandler):
    """The handler of one connection."""

    server: Server  # type: ignore[assignment]  # not a socketserver; only this class uses it
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        host = self.server.host
        if host is not None and not host_is_ours(self.headers.get("Host"), host):
            self.reply(403, "text/plain", b"The Host header does not name this server.\n")
            return
        path = self.path.partition("?")[0]
        if path in ("/", "/index.html"):
            self.reply(200, "text/html", PAGE.encode())
        elif path == "/live.json":
            self.reply(200, "application/json", json.dumps(snapshot_of(self.server.sources)).encode())
        elif path == "/timers":
            self.reply(200, "application/json", json.dumps(timers_of(self.server.sources)).encode())
        elif path == "/metrics":
            try:
                self.reply(200, "text/plain; version=0.0.4", metrics_of(self.server.sources))
            except MissingExtraError as error:
                self.reply(501, "text/plain", f"{error}\n".encode())
        else:
            self.reply(404, "text/plain", f"{NOT_FOUND}\n".encode())

    do_HEAD = do_GET

    def reply(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if kind != "application/json" else kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.send_in_pieces(memoryview(body))

    def send_in_pieces(self, body: memoryview) -> None:
        """Send to a client that may read slowly. The timeout of sendall() would limit the time for the whole body."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        while body:
            body = body[self.connection.send(body) :]

    def version_string(self) -> str:
        return f"hwheel/{__version__}"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: standard error belongs to the program."""
