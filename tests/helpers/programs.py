"""Python programs of their own, for what a test cannot do in its own process: crash, hang, fork, exit, or import
anew."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PATIENCE_S = 100
RESTORED_BY_SUBPROCESS = ("SIGPIPE", "SIGXFZ", "SIGXFSZ")  # Python itself ignores them


def stop_ignoring_signals():
    """Give every program that this process starts the default disposition of all signals.

    Programs inherit ignored signals: nohup ignores SIGHUP, and a shell without job control ignores SIGINT and SIGQUIT
    in the background. They do not inherit handlers, so a handler that does nothing protects this process just as well.
    """
    for number in signal.valid_signals() - {getattr(signal, name, None) for name in RESTORED_BY_SUBPROCESS}:
        if signal.getsignal(number) is signal.SIG_IGN:
            usual = signal.default_int_handler if number == signal.SIGINT else lambda *_: None
            signal.signal(number, usual)


class Ended(NamedTuple):
    """How a program ended."""

    status: int
    out: str
    err: str


def environment():
    """What a program is started with: it finds these helpers, and the installed package, never the source tree."""
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(Path(__file__).parent)}


def run_python(*arguments, patience_s=PATIENCE_S, env=None, **options):
    """Python with these arguments, a file or "-c" and code for instance, to its end. env is added to the
    environment."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
        env={**environment(), **(env or {})},
        **options,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def output_of(*arguments, **options):
    """What Python prints with these arguments. It has to succeed, and to write no error."""
    ended = run_python(*arguments, **options)
    assert (ended.status, ended.err) == (0, ""), ended
    return ended.out
