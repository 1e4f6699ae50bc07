"""A standalone cluster on loopback, from the pyspark package: a master and its workers, each a process of its own, with
executors as processes of theirs."""

import os
import re
import sys
import time
from pathlib import Path

import pyspark

from programs import GuardedProcess
from servers import free_ports

SPARK_HOME = Path(pyspark.__file__).parent
START_PATIENCE_S = 120
ENVIRONMENT = {
    "SPARK_HOME": str(SPARK_HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": "",  # what runs on executors is said by spark.pyspark.python alone
}
SERVICE = "org.apache.spark.deploy"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
OF_SERVICES = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.master.rest.enabled=false {SMALL}",
}
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "700m",
    "spark.executor.memory": "600m",
    "spark.driver.extraJavaOptions": SMALL,
    "spark.executor.extraJavaOptions": SMALL,
}


def environment():
    """That of whatever is Spark's here. Executors find hwheel as those of another machine do."""
    return {name: value for name, value in {**os.environ, **ENVIRONMENT}.items() if value and name != "PYTHONPATH"}


def submit(master):
    """spark-submit for small jobs on loopback."""
    conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
    return [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, *conf]


class Cluster:
    """Master and workers. All that was started is ended with `kill()`, or when we are gone."""

    def __init__(self, directory, workers=2):
        self.directory = directory
        directory.mkdir(parents=True)
        self.workers, self.others = [], []
        self.master = self.start("master", "master.Master")
        try:
            self.url = self.said("master", self.master, r"Starting Spark master at (spark://\S+)")
            self.add_workers(workers)
        except BaseException:
            self.kill()
            raise

    def start(self, name, service, *arguments):
        """A service of Spark's, on a port that it chooses."""
        command = [SPARK_HOME / "bin" / "spark-class", f"{SERVICE}.{service}", "--host", "127.0.0.1", "--port", "0"]
        command += ["--webui-port", "0", *arguments]
        return GuardedProcess(command, self.log(name), cwd=self.directory, env=environment() | OF_SERVICES)

    def add_workers(self, count):
        """Some with a core each, which the master knows when this returns."""
        names = [f"worker-{number}" for number in range(len(self.workers), len(self.workers) + count)]
        for name in names:
            options = ["--cores", "1", "--memory", "1g", "--work-dir", self.directory / name]
            self.workers.append(self.start(name, "worker.Worker", *options, self.url))
        for name, worker in zip(names, self.workers[-count:], strict=True):
            self.said(name, worker, "(Successfully registered with master)")

    def kill_worker(self, number):
        """With -9, and its executors, as if its machine were gone."""
        self.workers[number].kill()

    def start_connect(self):
        """A server of Spark Connect on this cluster; returns its address."""
        (port,) = free_ports(1)
        (jar,) = SPARK_HOME.glob("jars/spark-connect_*.jar")
        command = [*submit(self.url), "--class", CONNECT, "--conf", f"spark.connect.grpc.binding.port={port}"]
        command += ["--conf", "spark.connect.grpc.binding.address=127.0.0.1", jar]
        server = GuardedProcess(
            command, self.log("connect"), cwd=self.directory, env={**environment(), "PYSPARK_PYTHON": sys.executable}
        )
        self.others.append(server)
        self.said("connect", server, "(Spark Connect server started)")
        return f"sc://127.0.0.1:{port}"

    def log(self, name):
        return self.directory / f"{name}.log"

    def said(self, name, service, pattern):
        """Waits for a line of a log, and returns what the pattern's group found in it."""
        give_up = time.monotonic() + START_PATIENCE_S
        while (found := re.search(pattern, self.log(name).read_text())) is None:
            ended = service.process.poll() is not None
            assert not ended and time.monotonic() < give_up, f"no {name}: {self.log(name).read_text()[-4000:]}"
            time.sleep(0.05)
        return found[1]

    def kill(self):
        """All of it."""
        for service in [*self.others, *self.workers, self.master]:
            service.kill()
