"""Programs that run in processes of their own, for tests that crash, hang, fork, exit, or import again."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PATIENCE_S = 100
RESTORED_BY_SUBPROCESS = ("SIGPIPE", "SIGXFZ", "SIGXFSZ")  # Python itself ignores these


def stop_ignoring_signals():
    """Give every program that this process starts the default disposition of all signals.

    Programs inherit ignored signals: nohup ignores SIGHUP, and a shell without job control ignores SIGINT and SIGQUIT
    in the background. Programs do not inherit handlers, so a handler that does nothing protects this process as well.
    """
    for number in signal.valid_signals() - {getattr(signal, name, None) for name in RESTORED_BY_SUBPROCESS}:
        if signal.getsignal(number) is signal.SIG_IGN:
            handler = signal.default_int_handler if number == signal.SIGINT else lambda *_: None
            signal.signal(number, handler)


class ProgramResult(NamedTuple):
    status: int
    out: str
    err: str


def environment():
    """Return an environment in which programs find these helpers and the installed package, not the source tree."""
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(Path(__file__).parent)}


def run_python(*arguments, patience_s=PATIENCE_S, env=None, **options):
    """Run Python with these arguments and return its ProgramResult. ``env`` is added to the environment."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
        env={**environment(), **(env or {})},
        **options,
    )
    return ProgramResult(done.returncode, done.stdout, done.stderr)


def output_of(*arguments, **options):
    """Run Python with these arguments and return its output. Fail if its status is not 0 or it writes an error."""
    done = run_python(*arguments, **options)
    assert (done.status, done.err) == (0, ""), done
    return done.out


class Guard:
    """Kills a process group when this process ends for any reason, because the guard's standard input ends then."""

    def __init__(self, group):
        self.process = subprocess.Popen(
            ["sh", "-c", 'read word || kill -9 -"$0"', str(group)], stdin=subprocess.PIPE, start_new_session=True
        )

    def release(self):
        """End the guard after its group has ended."""
        if not self.process.stdin.closed:
            self.process.communicate(b"ended\n")


class GuardedProcess:
    """A process in a session of its own, which ends together with its children when this process ends."""

    def __init__(self, command, log, **options):
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, **options)
        self.guard = Guard(self.process.pid)

    def kill(self):
        """Kill the process and its children."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.guard.release()


class GuardedJob:
    """A mixin that guards a job. Put it before a class that has `process`, start(), kill(), and stop(signal)."""

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
