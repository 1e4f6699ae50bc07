"""The command of docs/spark_cluster.md on a cluster whose worker and driver are killed with -9."""

import os
import random
import re
import shlex
import sys
from pathlib import Path

import chaos
from programs import GuardedJob
from standalone import environment, submit

STOPPED = "\nhwheel deliver: stopped; nothing is lost, start again to continue\n"
PAGE = Path(__file__).parents[2] / "docs" / "spark_cluster.md"


class SubmittedJob(GuardedJob, chaos.Job):
    """The command of the docs under spark-submit, which ends with the test."""

    def __init__(self, directory, master):
        super().__init__(directory)
        self.master = master

    def command(self):
        (command,) = re.findall(r"^```sh\n(spark-submit --master spark:.*?)^```", PAGE.read_text(), re.M | re.S)
        for placeholder, here in {
            "spark://MASTER:7077": self.master,
            "/opt/hwheel/bin/python": sys.executable,
            "hdfs://": f"file://{self.directory}",
            "--partitions 64": "",
        }.items():
            assert placeholder in command, f"{placeholder} is no longer in the command of the docs"
            command = command.replace(placeholder, here)
        command = command.replace("spark-submit ", f"exec {shlex.join(submit(self.master))} ", 1)
        return ["sh", "-c", f"{command.rstrip()} {shlex.join(self.OPTIONS)}"]

    def environment(self):
        return environment()

    def stop(self, number):
        """Signal the process group, like Ctrl-C. The signal may end spark-submit, so the status comes from the log."""
        os.killpg(self.process.pid, number)
        assert self.process.wait(chaos.PATIENCE_S) in (0, 128 + number, -number)
        self.guard.release()
        return 0 if STOPPED in (self.directory / "log").read_text() else 1


def test_killed_worker_and_driver_lose_and_duplicate_nothing(cluster, tmp_path):
    chance = random.Random(3)

    def kill(job):
        job.wait_for_a_batch()
        cluster.kill_worker(0)
        job.wait_for_a_batch()
        job.wait_for_a_batch()  # on the other worker
        cluster.add_workers(1)
        job.kill()
        job.start()

    sender = chaos.run_through(SubmittedJob(tmp_path, cluster.url), kill, chance, every_s=0.5)
    assert len(sender.expected()) > 500 and sender.bursts and sender.bad_files
    log = (cluster.directory / "worker-1.log").read_text()
    assert log.count("Asked to launch executor") >= 2, "both jobs ran on the cluster"
