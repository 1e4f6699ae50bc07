"""A way to the broker on which answers get lost: a producer that has sent does not learn of it, and sends again."""

import socket
import threading

PRODUCE = 0  # the request's number in Kafka's protocol


class LossyProxy:
    """Hands requests and answers on. As often as `to_lose` says, it waits for the answer to a request to produce, and
    hangs up instead; never at the first of a connection.
    """

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.broker_port = None
        self.to_lose = 0
        self.open = set()
        self.threads = []

    def __enter__(self):
        self.start(self.accept)
        return self

    def __exit__(self, *_):
        for one in [self.listener, *self.open]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()
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
            deaf = threading.Event()
            self.start(self.requests, client, broker, deaf)
            self.start(self.answers, client, broker, deaf)

    def requests(self, client, broker, deaf):
        """From the client; each is its length, and then what kind it is."""
        produced = 0
        try:
            while request := message(client):
                if int.from_bytes(request[4:6]) == PRODUCE:
                    produced += 1
                    if produced > 1 and self.to_lose:
                        self.to_lose -= 1
                        deaf.set()
                broker.sendall(request)
        except OSError:
            pass
        finally:
            hang_up(client, broker)

    def answers(self, client, broker, deaf):
        try:
            while answer := message(broker):
                if deaf.is_set():  # the broker has done it
                    break
                client.sendall(answer)
        except OSError:
            pass
        finally:
            hang_up(client, broker)


def message(connection):
    """A request or an answer, whole; nothing at the end."""
    head = exactly(connection, 4)
    return head + exactly(connection, int.from_bytes(head)) if head else b""


def exactly(connection, size):
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            return b""
        parts += part
    return parts


def hang_up(*connections):
    for one in connections:
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
