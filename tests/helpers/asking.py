"""Asking a live server over HTTP, byte by byte where it matters."""

import http.client
import json
import socket
from typing import NamedTuple

PATIENCE_S = 60


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict
    body: bytes


def connected(address):
    """A socket: to a path, or to (host, port)."""
    if isinstance(address, str):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(PATIENCE_S)
        try:
            client.connect(address)
        except OSError:
            client.close()
            raise
        return client
    return socket.create_connection(address, timeout=PATIENCE_S)


def ask(address, page="/live.json", method="GET", host=None):
    """An Answer. host: the Host header, instead of the right one; "" for none."""
    request = http.client.HTTPConnection("localhost" if isinstance(address, str) else address[0], timeout=PATIENCE_S)
    request.sock = connected(address)
    try:
        request.putrequest(method, page, skip_host=host is not None)
        if host:
            request.putheader("Host", host)
        request.endheaders()
        answer = request.getresponse()
        return Answer(answer.status, {**answer.headers}, answer.read())
    finally:
        request.close()


def seen(address):
    """What a look shows."""
    answer = ask(address)
    assert answer.status == 200, answer
    return json.loads(answer.body)
