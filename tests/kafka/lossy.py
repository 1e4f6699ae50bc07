"""A proxy in front of the broker that drops some answers, so that a producer sends the same records again."""

import socket
import threading
from contextlib import suppress

PRODUCE = 0  # key of the produce request in Kafka's protocol


class LossyProxy:
    """Forwards requests and answers. It drops the answers to `answers_to_drop` produce requests, and hangs up.

    It never drops the answer to the first produce request of a connection.
    """

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.broker_port = None
        self.answers_to_drop = 0
        self.open = set()
        self.threads = []

    def __enter__(self):
        self.start(self.accept)
        return self

    def __exit__(self, *_):
        hang_up(self.listener, *self.open)
        for connection in [self.listener, *self.open]:
            connection.close()
        for thread in self.threads:
            thread.join()

    def start(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments, name="lossy")
        self.threads.append(thread)
        thread.start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                broker = socket.create_connection(("127.0.0.1", self.broker_port))
            except OSError:
                return
            self.open |= {client, broker}
            dropping = threading.Event()
            self.start(self.forward_requests, client, broker, dropping)
            self.start(self.forward_answers, client, broker, dropping)

    def forward_requests(self, client, broker, dropping):
        produced = 0
        with suppress(OSError):
            while request := receive(client):
                if int.from_bytes(request[4:6]) == PRODUCE:
                    produced += 1
                    if produced > 1 and self.answers_to_drop:
                        self.answers_to_drop -= 1
                        dropping.set()
                broker.sendall(request)
        hang_up(client, broker)

    def forward_answers(self, client, broker, dropping):
        with suppress(OSError):
            while answer := receive(broker):
                if dropping.is_set():  # the broker has stored the records
                    break
                client.sendall(answer)
        hang_up(client, broker)


def receive(connection):
    """Return one request or answer with its length prefix; nothing at the end of the stream."""
    head = receive_exactly(connection, 4)
    return head + receive_exactly(connection, int.from_bytes(head)) if head else b""


def receive_exactly(connection, size):
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            return b""
        parts += part
    return parts


def hang_up(*connections):
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
