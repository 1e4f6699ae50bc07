"""A small server that leaks timers, and the census that finds them. `--svg FILE` saves the picture of the docs."""

import argparse
import io
import re
import socket
import socketserver
import struct
import threading

from hwheel import SystemTimer
from hwheel.live.snapshot import Sources, snapshot_of

CONNECTIONS = 300
timer = SystemTimer("server")


class Connection(socketserver.StreamRequestHandler):
    """Answers one line. A connection that is idle for an hour is closed."""

    def handle(self):
        idle = timer.call_later(3600, self.close_idle)
        line = self.rfile.readline()  # raises ConnectionResetError if the client disappears ...
        self.wfile.write(line.upper())
        idle.cancel()  # ... and then the timer stays, with the connection; `try: ... finally:` would cancel it

    def close_idle(self):
        self.connection.close()


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = False  # server_close() waits for all connections

    def handle_error(self, request, client_address):
        """Ignore the errors of connections, as many servers do."""


def use(address):
    """Open connections. Each third client disappears without a word."""
    for number in range(CONNECTIONS):
        with socket.create_connection(address) as client:
            if number % 3 == 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() sends a reset
            else:
                client.sendall(b"hello\n")
                client.recv(100)


def save_picture(file):
    """Save what `hwheel top` shows."""
    from rich.console import Console

    from hwheel.cli.top.draw import Page

    console = Console(record=True, width=100, file=io.StringIO())
    console.print(Page(console).draw(snapshot_of(Sources([timer])), {}, "/run/server.sock"))
    svg = console.export_svg(title="hwheel top /run/server.sock")
    with open(file, "w") as picture:
        picture.write(re.sub(r"@font-face {.*?}\s*|<!--.*?-->\s*|\n(?=\s*\n)", "", svg, flags=re.DOTALL))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--svg", help="the file for the picture")
    options = parser.parse_args()
    timer.call_every(30, print, "still alive")
    with Server(("127.0.0.1", 0), Connection) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        use(server.server_address)
        server.shutdown()
    for group in timer.census():
        print(f"{group.pending:5} pending: {group.module}:{group.line} {group.qualname}, owner {group.owner}")
    if options.svg:
        save_picture(options.svg)
    timer.close()


if __name__ == "__main__":
    main()
