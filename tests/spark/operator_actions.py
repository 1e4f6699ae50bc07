"""What crashes and operators do to a job of chaos.py."""

import re
import shutil
import signal
import subprocess
import time
from collections import Counter

from chaos import PATIENCE_S
from hwheel.spark.deliver.owner import OWNER

OUTPUTS = ("out", "out-dead-letters")
CHANGES = [
    ["--trigger", "200ms"],
    ["--trigger", "3s"],
    ["--dead-letters-every", "1s"],
    ["--master", "local[1]"],
    ["--master", "local[4]"],
    ["--largest-message", "2MB"],
    ["--largest-message", "1MB"],
    ["--conf", "spark.sql.files.maxRecordsPerFile=100"],
    ["--conf", "spark.sql.files.maxPartitionBytes=100000"],
    ["--clean-source", "delete"],
]
REFUSED = {
    "--tick 7s": "the checkpoint was created with --tick 1000ms, not 7000ms",
    "--partitions 3": "the checkpoint was created with --partitions 2, not 3",
    "--dedup 1s": "the checkpoint was created with --dedup 3600000ms, not 1000ms",
    "--due-unit s": "the checkpoint was created with --due-unit ms, not s",
    "--from elsewhere": "was created for .*, not for .*\\n.*--moved-from",
    "--checkpoint new": "has the files of another checkpoint",
}


class Operator:
    """Does one thing after another to a job until a time of the monotonic clock. The text is a count of all."""

    def __init__(self, job, chance, end):
        self.job, self.chance, self.end = job, chance, end
        self.count, self.source = Counter(), job.directory / "in"
        self.actions = [
            self.kill,
            self.kill,
            self.stop,
            self.restore_one,
            self.rename,
            self.link,
            self.change,
            self.err,
        ]
        if not job.by_id:  # messages and replacements in one batch have no order
            self.actions.append(self.restore_all)

    def __call__(self):
        self.job.wait_for_a_batch()
        rest = []
        while time.monotonic() < self.end:
            rest = rest or self.chance.sample(self.actions, len(self.actions))
            action = rest.pop()
            action()
            self.count[action.__name__.replace("_", " ")] += 1
            self.job.wait_for_a_batch()

    def __str__(self):
        return ", ".join(f"{count} {name}" for name, count in sorted(self.count.items()))

    def halt(self):
        """Stop or kill the job, at any moment."""
        time.sleep(self.chance.uniform(0, 3))
        if self.chance.random() < 0.5:
            self.job.kill()
        else:
            assert self.job.stop(signal.SIGTERM) == 0, "a clean stop"

    def start_refused(self, pattern, *more):
        """Start the job with options that it must refuse."""
        done = subprocess.run(
            [*self.job.command(), *more],
            cwd=self.job.directory,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode in (1, 2) and re.search(pattern, done.stderr), done

    def kill(self):
        """Kill the job, possibly during its start, and start it."""
        time.sleep(self.chance.uniform(0, 5))
        self.job.kill()
        self.job.start()
        if self.chance.random() < 0.5:
            time.sleep(self.chance.uniform(0, 15))
            self.job.kill()
            self.job.start()

    def stop(self):
        assert self.job.stop(signal.SIGTERM) == 0, "a clean stop"
        self.job.start()

    # --- copies -------------------------------------------------------------------------------------------------------

    def copy_and_continue(self):
        """Copy the places of the stopped job, let it run for a while, and stop it."""
        self.halt()
        self.owners = [self.owner(name) for name in OUTPUTS]
        for name in ("state", *OUTPUTS):
            shutil.rmtree(self.job.directory / f"{name}-copy", ignore_errors=True)
            shutil.copytree(self.job.directory / name, self.job.directory / f"{name}-copy")
        self.job.start()
        self.job.wait_for_a_batch()
        time.sleep(self.chance.uniform(0, 10))
        self.halt()

    def owner(self, name):
        file = self.job.directory / name / OWNER
        return file.read_text() if file.exists() else ""

    def swap(self, name):
        """Exchange a place and its copy."""
        place = self.job.directory / name
        place.rename(place.with_name("swapped"))
        place.with_name(f"{name}-copy").rename(place)
        place.with_name("swapped").rename(place.with_name(f"{name}-copy"))

    def restore_one(self):
        """Restore one place, which must be refused if messages went out since the copy."""
        self.copy_and_continue()
        changed = [name for name, owner in zip(OUTPUTS, self.owners, strict=True) if self.owner(name) != owner]
        if changed:
            name = self.chance.choice(["state", *changed])
            self.swap(name)
            self.start_refused("is newer than the checkpoint" if name == "state" else "is older than the checkpoint")
            self.swap(name)
        self.job.start()

    def restore_all(self):
        """Restore all places; the input still has its files."""
        if "--clean-source" in self.job.more:
            return self.kill()
        self.copy_and_continue()
        for name in ("state", *OUTPUTS):
            self.swap(name)
        self.job.start()

    # --- names and settings -------------------------------------------------------------------------------------------

    def read_from(self, source, *more):
        self.job.places = ["--from", source.name, "--to", "out", *more]

    def rename(self):
        """Move the input, once with the files of a batch that was interrupted."""
        self.halt()
        old, new = self.source, self.source.with_name(f"in-{self.count.total()}")
        with self.job.sender.lock:
            old.rename(new)
            self.source = self.job.sender.directory = new
        self.read_from(new)
        self.start_refused("was created for .*\\n.*--moved-from")
        self.read_from(new, "--moved-from", old.name)
        self.job.start()

    def link(self):
        """Read the input through a symbolic link."""
        link = self.source.with_name(f"link-{self.count.total()}")
        link.symlink_to(self.source.name)
        self.halt()
        self.read_from(link)
        self.job.start()

    def change(self):
        """Change a setting that may change. The limit of messages may not while a batch with input is interrupted."""
        self.halt()
        before = self.job.more
        self.job.more = [*before, *self.chance.choice(CHANGES)]
        self.job.start()
        last, log = self.job.last_batch(), self.job.directory / "log"
        give_up = time.monotonic() + PATIENCE_S
        while self.job.last_batch() == last and self.job.process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.2)
        if self.job.process.poll() is not None:
            assert "--largest-message" in self.job.more[-2:], log.read_text()[-2000:]
            assert "a batch was interrupted with --largest-message" in log.read_text()[-1000:]
            self.count["refused limit"] += 1
            self.job.more = before
            self.job.start()

    def err(self):
        """Start with something that must not change."""
        self.halt()
        (self.job.directory / "elsewhere").mkdir(exist_ok=True)
        options, pattern = self.chance.choice([*REFUSED.items()])
        self.start_refused(pattern, *options.split())
        shutil.rmtree(self.job.directory / "new", ignore_errors=True)
        self.job.start()
