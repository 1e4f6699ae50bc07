"""Forked children that exit under load: none hangs, and each has the expected exit status."""

import atexit
import faulthandler
import os
import signal
import sys
import threading
import time
from array import array

import hwheel

PATIENCE_S = 60
NOT_ALL_RAN, EARLY = 72, 73  # exit statuses


def use(load):
    """Use the timers of the parent and the engine of hwheel.Timer. All callbacks run, none of them early."""
    ran, began = [], time.monotonic()
    timers = [load.adders[name].timer for name in ("own", "inline", "batches")]
    for timer in timers:
        timer.call_later(0.004, lambda: ran.append(time.monotonic()))
        timer.call_many(array("q", [4]), lambda _: ran.append(time.monotonic()))
        assert timer.call_later(3600, print).cancel()
    hwheel.Timer(0.004, lambda: ran.append(time.monotonic())).start()
    while len(ran) < 2 * len(timers) + 1:
        time.sleep(0.001)
        if time.monotonic() > began + PATIENCE_S:
            os._exit(NOT_ALL_RAN)
    if min(ran) < began + 0.004:
        os._exit(EARLY)


# --- how a child exits ----------------------------------------------------------------------------------------------


def work_until(load, end, *args):
    """Add and cancel until a timer calls ``end``, which ends the process."""
    load.adders["own"].timer.call_later(load.random.random() / 100, end, *args)
    while True:
        load.adders["inline"].timer.call_later(60, print).cancel()
        load.adders["batches"].timer.call_many(array("q", [1, 2, 60_000] * 20), len).cancel()
        # If a thread other than the main one has forked, CPython 3.13 runs signal handlers only where it is asked to.
        signal.pthread_kill(threading.get_ident(), 0)


def wait_for_a_callback(timer):
    ran = threading.Event()
    timer.call_later(0.001, ran.set)
    if not ran.wait(PATIENCE_S):
        os._exit(NOT_ALL_RAN)


def sys_exit_in_callback(load):
    """Call sys.exit() in a callback, which exits nothing, as in a thread."""
    load.adders["batches"].timer.call_later(0, sys.exit, 5)
    wait_for_a_callback(load.adders["batches"].timer)
    sys.exit(0)


def exit_with_adds_at_exit(load):
    atexit.register(wait_for_a_callback, load.adders["batches"].timer)
    sys.exit(0)


def close_and_exit(load):
    for name in ("own", "inline", "batches"):
        load.adders[name].timer.close(run_pending=name != "inline")
    sys.exit(0)


def exit_in_signal_handler(load):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    work_until(load, os.kill, os.getpid(), signal.SIGTERM)


# {name: (function, exit status)}
EXITS = {
    "os._exit": (lambda load: os._exit(0), 0),
    "os._exit in a callback": (lambda load: work_until(load, os._exit, 0), 0),
    "sys.exit": (lambda load: sys.exit(0), 0),
    "sys.exit in a callback": (sys_exit_in_callback, 0),
    "sys.exit after close()": (close_and_exit, 0),
    "sys.exit with adds at exit": (exit_with_adds_at_exit, 0),
    "sys.exit in a signal handler": (exit_in_signal_handler, 0),
    "SIGTERM": (lambda load: work_until(load, os.kill, os.getpid(), signal.SIGTERM), -signal.SIGTERM),
    "SIGKILL": (lambda load: work_until(load, os.kill, os.getpid(), signal.SIGKILL), -signal.SIGKILL),
}


class Forks:
    """Forks from the main thread, from a callback, and from a signal handler, in turn.

    Each child uses the timers of its parent. Every other child then exits under load of its own.
    """

    def __init__(self, load):
        self.load = load
        self.exits = [*EXITS] if load.plan.forks else ["os._exit"]
        self.pid, self.name, self.in_next_signal = None, "", False

    def fork_and_wait(self):
        """Fork, wait for the child, and record how it exited."""
        count, timers = self.load.counts["forks"], self.load.adders
        self.pid, self.name = None, self.exits[count // 3 % len(self.exits)]
        if count % 3 == 0:
            self._fork()
        elif count % 3 == 1:
            timers["inline" if count % 2 else "own"].timer.call_later(0.001, self._fork)
        else:
            self.in_next_signal = True
        while self.pid is None:  # the signal interrupts an add or a cancel
            timers["inline"].timer.call_later(60, print).cancel()
        self.load.counts["forks"] += 1
        if (status := self._wait()) != EXITS[self.name][1]:
            self.load.faults[f"child, {self.name}: {'hangs' if status is None else f'status {status}'}"] += 1

    def on_signal(self):
        """Fork if it is the turn of the signal handler."""
        if self.in_next_signal:
            self.in_next_signal = False
            self._fork()

    def _fork(self):
        pid = os.fork()
        if pid:
            self.pid = pid
            return
        faulthandler.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        load = self.load
        use(load)
        if load.plan.forks and load.counts["forks"] % 2:
            load = load.start_another()
            time.sleep(load.random.random() / 20)
        EXITS[self.name][0](load)

    def _wait(self):
        """Return the exit status; None for a child that hangs, which prints its stacks and is killed."""
        give_up = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.001)
        os.kill(self.pid, signal.SIGABRT)
        time.sleep(2)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None
