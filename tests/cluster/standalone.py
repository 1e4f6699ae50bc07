"""A standalone Spark cluster on loopback: the master, its workers, and their executors are separate processes."""

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
    "PYSPARK_PYTHON": "",  # spark.pyspark.python chooses the Python of executors
}
SERVICE = "org.apache.spark.deploy"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SERVICE_ENVIRONMENT = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.master.rest.enabled=false {SMALL_JVM}",
}
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "700m",
    "spark.executor.memory": "600m",
    "spark.driver.extraJavaOptions": SMALL_JVM,
    "spark.executor.extraJavaOptions": SMALL_JVM,
}


def environment():
    """Return the environment of Spark's processes. Without PYTHONPATH, executors import the installed hwheel."""
    return {name: value for name, value in {**os.environ, **ENVIRONMENT}.items() if value and name != "PYTHONPATH"}


def submit(master):
    """Return the command line of spark-submit for small jobs on loopback."""
    conf = [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]
    return [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, *conf]


class Cluster:
    """A master and workers. They end with kill(), or with this process."""

    def __init__(self, directory, workers=2):
        self.directory = directory
        directory.mkdir(parents=True)
        self.workers, self.others = [], []
        self.master = self.start("master", "master.Master")
        try:
            self.url = self.wait_for_line("master", self.master, r"Starting Spark master at (spark://\S+)")
            self.add_workers(workers)
        except BaseException:
            self.kill()
            raise

    def start(self, name, service, *arguments):
        """Start a service on a port that it chooses."""
        command = [SPARK_HOME / "bin" / "spark-class", f"{SERVICE}.{service}", "--host", "127.0.0.1", "--port", "0"]
        command += ["--webui-port", "0", *arguments]
        return GuardedProcess(command, self.log(name), cwd=self.directory, env=environment() | SERVICE_ENVIRONMENT)

    def add_workers(self, count):
        """Start workers with one core each, and wait until they are registered."""
        names = [f"worker-{number}" for number in range(len(self.workers), len(self.workers) + count)]
        for name in names:
            options = ["--cores", "1", "--memory", "1g", "--work-dir", self.directory / name]
            self.workers.append(self.start(name, "worker.Worker", *options, self.url))
        for name, worker in zip(names, self.workers[-count:], strict=True):
            self.wait_for_line(name, worker, "(Successfully registered with master)")

    def kill_worker(self, number):
        """Kill a worker and its executors, as if its machine had failed."""
        self.workers[number].kill()

    def start_connect(self):
        """Start a Spark Connect server on this cluster; return its address."""
        (port,) = free_ports(1)
        (jar,) = SPARK_HOME.glob("jars/spark-connect_*.jar")
        command = [*submit(self.url), "--class", CONNECT, "--conf", f"spark.connect.grpc.binding.port={port}"]
        command += ["--conf", "spark.connect.grpc.binding.address=127.0.0.1", jar]
        server = GuardedProcess(
            command, self.log("connect"), cwd=self.directory, env={**environment(), "PYSPARK_PYTHON": sys.executable}
        )
        self.others.append(server)
        self.wait_for_line("connect", server, "(Spark Connect server started)")
        return f"sc://127.0.0.1:{port}"

    def log(self, name):
        return self.directory / f"{name}.log"

    def wait_for_line(self, name, service, pattern):
        """Wait for a line in a log, and return the group of the pattern."""
        give_up = time.monotonic() + START_PATIENCE_S
        while (found := re.search(pattern, self.log(name).read_text())) is None:
            ended = service.process.poll() is not None
            assert not ended and time.monotonic() < give_up, f"no {name}: {self.log(name).read_text()[-4000:]}"
            time.sleep(0.05)
        return found[1]

    def kill(self):
        for service in [*self.others, *self.workers, self.master]:
            service.kill()
