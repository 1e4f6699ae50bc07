"""What the server answers: three pages, over HTTP/1.0, one to a connection."""

import base64
import hashlib
import ipaddress
import json
import re
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import Any, Protocol

from hwheel.extras import MissingExtraError
from hwheel.live.look import Looker
from hwheel.version import __version__

PAGE = files("hwheel.live").joinpath("page.html").read_text("utf-8")
PATIENCE_S = 5.0  # with a client that says nothing, or reads nothing
ROOT = "there is / to look at, /live.json and /metrics"


def allowed(kind: str) -> str:
    """A source of a content security policy: what stands in the page between these tags, and nothing else."""
    (text,) = re.findall(f"<{kind}>(.*?)</{kind}>", PAGE, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; script-src {allowed('script')}; style-src {allowed('style')}; connect-src 'self'; "
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
    """Whether a browser that sends this Host header has been asked for this server by who looks at it.

    A page of somebody else's that has its name lead to this machine (DNS rebinding) has its own name there. So an
    address in figures will do, and localhost, and the name that the server was told to listen on.
    """
    name = re.sub(r":\d*$", "", host or "").strip("[]").lower()
    if name in ("localhost", own.lower()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Served(Protocol):
    """What an answer needs of the server."""

    looker: Looker

    @property
    def host(self) -> str | None:
        """The host that it listens on; None: a Unix socket."""


class Answer(BaseHTTPRequestHandler):
    """One connection, one request, one answer."""

    server: Served  # type: ignore[assignment]  # no socketserver's: only this class looks at it
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        """What http.server calls."""
        host = self.server.host
        if host is not None and not host_is_ours(self.headers.get("Host"), host):
            self.reply(403, "text/plain", b"This name is not this machine's.\n")
            return
        path = self.path.partition("?")[0]
        if path in ("/", "/index.html"):
            self.reply(200, "text/html", PAGE.encode())
        elif path == "/live.json":
            self.reply(200, "application/json", json.dumps(self.server.looker.look()).encode())
        elif path == "/metrics":
            try:
                self.reply(200, "text/plain; version=0.0.4", self.server.looker.metrics())
            except MissingExtraError as error:
                self.reply(501, "text/plain", f"{error}\n".encode())
        else:
            self.reply(404, "text/plain", f"{ROOT}\n".encode())

    do_HEAD = do_GET

    def reply(self, status: int, kind: str, body: bytes) -> None:
        """Sends the answer."""
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if kind != "application/json" else kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """The Server header."""
        return f"hwheel/{__version__}"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: standard error is the program's."""
