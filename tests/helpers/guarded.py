"""Processes that do not outlive the test that started them."""

import os
import signal
import subprocess


class Guard:
    """Kills a group of processes when we are gone, however that comes about: its standard input ends then."""

    def __init__(self, group):
        self.process = subprocess.Popen(
            ["sh", "-c", 'read word || kill -9 -"$0"', str(group)], stdin=subprocess.PIPE, start_new_session=True
        )

    def release(self):
        """The group has ended."""
        if not self.process.stdin.closed:
            self.process.communicate(b"ended\n")


class Guarded:
    """A process in a session of its own; with its children it does not outlive us."""

    def __init__(self, command, log, **options):
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, **options)
        self.guard = Guard(self.process.pid)

    def kill(self):
        """Ends it at once, with its children."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.guard.release()


class GuardedJob:
    """For a job that does not outlive us: the base before one that has `process`, start(), kill() and stop(signal)."""

    def start(self):
        super().start()
        self.guard = Guard(self.process.pid)

    def kill(self):
        super().kill()
        self.guard.release()

    def stop(self, number):
        status = super().stop(number)
        self.guard.release()
        return status
