"""A Kafka broker on 127.0.0.1, and a proxy in front of it that drops answers."""

import base64
import socket
import subprocess
import threading
import time
import uuid
from contextlib import suppress

from confluent_kafka.admin import AdminClient, NewTopic

from programs import GuardedProcess
from servers import free_ports

START_PATIENCE_S = 120
JAVA = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
PRODUCE = 0  # key of the produce request in Kafka's protocol
STARTS = 3  # another process may take a port between its choice and its use


class Broker:
    """One node in KRaft mode, from the official jars.

    `servers` is its address, and `lossy_servers` its address behind a LossyProxy.
    """

    def __init__(self, jars, directory, proxy):
        self.jars, self.directory, self.proxy = jars, directory, proxy
        self.lossy_servers = f"127.0.0.1:{proxy.port}"
        directory.mkdir(parents=True)
        for attempt in range(STARTS):
            self.log = directory / f"log.{attempt}"
            self.port, proxy.broker_port, controller = free_ports(3)
            self.servers = f"127.0.0.1:{self.port}"
            self.format(directory / f"data.{attempt}", controller)
            self.start()
            if self.answers():
                return
            self.kill()
        raise RuntimeError(f"the broker does not start: {self.log.read_text()[-4000:]}")

    def format(self, data, controller):
        """Write the configuration, and format the storage."""
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{controller},"
            f"LOSSY://127.0.0.1:{self.proxy.broker_port}",
            "advertised.listeners": f"PLAINTEXT://{self.servers},LOSSY://{self.lossy_servers}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOSSY:PLAINTEXT",
            "log.dirs": data,
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        self.properties = self.directory / "server.properties"
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if cluster.startswith("-"):
            cluster = f"A{cluster[1:]}"  # a leading hyphen would make it an option
        done = subprocess.run(
            [*JAVA, "-cp", f"{self.jars}/*", "kafka.tools.StorageTool", "format", "-t", cluster, "-c", self.properties],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self):
        """Start the broker, after kill() with the same storage and address."""
        self.java = GuardedProcess(
            [*JAVA, "-cp", f"{self.jars}/*", "kafka.Kafka", self.properties], self.log, cwd=self.directory
        )

    def answers(self):
        """Wait until the broker answers; return False if it ends."""
        give_up = time.monotonic() + START_PATIENCE_S
        while time.monotonic() < give_up and self.java.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                admin = AdminClient({"bootstrap.servers": self.servers})
                return bool(admin.list_topics(timeout=START_PATIENCE_S).brokers)
        return False

    def make_topic(self, name, partitions=1, **settings):
        """Create a topic; return its URL for `hwheel deliver`."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        made = admin.create_topics([NewTopic(name, partitions, 1, config=settings)])
        made[name].result(START_PATIENCE_S)
        return f"kafka://{self.servers}/{name}"

    def kill(self):
        self.java.kill()


class LossyProxy:
    """Makes a producer send records twice.

    It forwards requests and answers. It drops the answers to `answers_to_drop` produce requests, and hangs up.

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
