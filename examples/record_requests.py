"""Record a log of real HTTP requests on the loopback: requests.jsonl, for `hwheel tune`.

    python examples/record_requests.py [--requests N] [--rate R] [--seed S] [--out FILE]

A server on a free port of 127.0.0.1 delays each response: most by some tens of milliseconds, a few by more than a
second. A client sends requests at a steady rate and abandons a request after its timeout. The log has a JSON object per
line, in order of the starts, with times in milliseconds since the first request:

    {"start": time of the request, "timeout": timeout of the client, "end": time of the response, or null}

Needs only the standard library.
"""

import argparse
import http.client
import json
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TIMEOUTS_MS = [250, 500, 1000]
CLIENTS = 128  # the most concurrent requests
LONGEST_WORK_S = 3.0


class SlowHandler(BaseHTTPRequestHandler):
    """Responds to GET /<ms> after this many milliseconds."""

    def do_GET(self) -> None:
        time.sleep(min(float(self.path[1:]) / 1000, LONGEST_WORK_S))
        try:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")
        except ConnectionError:
            pass  # the client has disconnected

    def log_message(self, *args: object) -> None:
        """Log nothing: the client writes the log."""


class Server(ThreadingHTTPServer):
    """A server with a daemon thread per connection."""

    daemon_threads = True
    request_queue_size = CLIENTS

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that have disconnected."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def work_ms(chance: random.Random) -> float:
    """Return a delay of the server: usually short, sometimes slow, rarely very slow."""
    kind = chance.random()
    if kind < 0.85:
        return chance.uniform(2, 40)
    if kind < 0.96:
        return chance.uniform(40, 400)
    return chance.uniform(300, 1500)


def send(port: int, path: str, timeout_ms: int, begin: float) -> dict[str, Any]:
    """Send a request on a new connection, and return its line of the log."""
    start = time.monotonic()
    end_ms = None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_ms / 1000)
    try:
        connection.request("GET", path)
        connection.getresponse().read()
        end_ms = round((time.monotonic() - begin) * 1000, 1)
    except OSError:
        pass  # timed out
    finally:
        connection.close()
    return {"start": round((start - begin) * 1000, 1), "timeout": timeout_ms, "end": end_ms}


def record(requests: int, rate: float, seed: int) -> list[dict[str, Any]]:
    """Run the server and the client, and return the log."""
    chance = random.Random(seed)
    server = Server(("127.0.0.1", 0), SlowHandler)
    serving = threading.Thread(target=server.serve_forever, name="server", daemon=True)
    serving.start()
    try:
        with ThreadPoolExecutor(CLIENTS, thread_name_prefix="client") as clients:
            begin = time.monotonic()
            answers = []
            for number in range(requests):
                time.sleep(max(0.0, begin + number / rate - time.monotonic()))
                path = f"/{work_ms(chance):.1f}"
                answers.append(clients.submit(send, server.server_port, path, chance.choice(TIMEOUTS_MS), begin))
            return sorted((answer.result() for answer in answers), key=lambda request: request["start"])
    finally:
        server.shutdown()
        serving.join()
        server.socket.close()


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Record a log of real HTTP requests on loopback.")
    parser.add_argument("--requests", type=int, default=200, help="how many (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=400, help="requests per second (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the delays (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).with_name("requests.jsonl"), help="the log (default: beside this)"
    )
    options = parser.parse_args()
    log = record(options.requests, options.rate, options.seed)
    options.out.write_text("".join(json.dumps(request) + "\n" for request in log), encoding="utf-8")
    timed_out = sum(request["end"] is None for request in log)
    print(f"{options.out}: {len(log)} requests, {timed_out} of which timed out")


if __name__ == "__main__":
    main()
