"""Forks and exits of processes under load: none hangs, and each has the expected exit status."""

import atexit
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from array import array
from concurrent.futures import Future

import hwheel
from hwheel.purgatory import DelayedFuturePurgatory

# Without a GIL, CPython 3.13 can hand the lock of an object to a waiting thread that a fork has stopped. In the child
# that object is then locked forever.
HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
PATIENCE_S = 60
NOT_ALL_RAN, EARLY = 72, 73  # exit statuses


def use(load):
    """Use the timers of the parent and a few other classes. All callbacks run, none of them early."""
    ran, began = [], time.monotonic()
    timers = [load.adders[name].timer for name in ("own", "inline", "batches")]
    for timer in timers:
        timer.call_later(0.004, lambda: ran.append(time.monotonic()))
        timer.call_many(array("q", [4]), lambda _: ran.append(time.monotonic()))
        assert timer.call_later(3600, print).cancel()
    hwheel.Timer(0.004, lambda: ran.append(time.monotonic())).start()
    if HAS_GIL:
        load.forks.entries["child"] = 1
    while len(ran) < 2 * len(timers) + 1 or load.forks.entries:
        time.sleep(0.001)
        if time.monotonic() > began + PATIENCE_S:
            os._exit(NOT_ALL_RAN)
    if min(ran) < began + 0.004:
        os._exit(EARLY)


# --- how a child of a fork, or a program, exits ---------------------------------------------------------------------


def exit_in_callback(load):
    load.adders["own"].timer.call_later(0, os._exit, 0)
    time.sleep(PATIENCE_S)
    os._exit(NOT_ALL_RAN)


def sys_exit_in_callback(load):
    """Call sys.exit() in a callback, which exits nothing, as in a thread."""
    load.adders["batches"].timer.call_later(0, sys.exit, 5)
    wait_for_a_callback(load.adders["batches"].timer)
    sys.exit(0)


def wait_for_a_callback(timer):
    ran = threading.Event()
    timer.call_later(0.001, ran.set)
    if not ran.wait(PATIENCE_S):
        os._exit(NOT_ALL_RAN)


def exit_with_adds_at_exit(load):
    atexit.register(wait_for_a_callback, load.adders["batches"].timer)
    sys.exit(0)


def close_and_exit(load):
    for name in ("own", "inline", "batches"):
        load.adders[name].timer.close(run_pending=name != "inline")
    sys.exit(0)


def work_until(number, load):
    """Add and cancel until a signal arrives, which a timer sends."""
    load.adders["own"].timer.call_later(load.random.random() / 100, os.kill, os.getpid(), number)
    while True:
        load.adders["inline"].timer.call_later(60, print).cancel()
        load.adders["batches"].timer.call_many(array("q", [1, 2, 60_000] * 20), len).cancel()


def exit_in_signal_handler(load):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    work_until(signal.SIGTERM, load)


# {name: (function, exit status)}
EXITS = {
    "os._exit": (lambda load: os._exit(0), 0),
    "os._exit in a callback": (exit_in_callback, 0),
    "sys.exit": (lambda load: sys.exit(0), 0),
    "sys.exit in a callback": (sys_exit_in_callback, 0),
    "sys.exit after close()": (close_and_exit, 0),
    "sys.exit with adds at exit": (exit_with_adds_at_exit, 0),
    "sys.exit in a signal handler": (exit_in_signal_handler, 0),
    "SIGTERM": (lambda load: work_until(signal.SIGTERM, load), -signal.SIGTERM),
    "SIGKILL": (lambda load: work_until(signal.SIGKILL, load), -signal.SIGKILL),
}


class Forks:
    """Forks from the main thread, from a callback, and from a signal handler, in turn."""

    def __init__(self, load):
        self.load = load
        self.exits = [*EXITS] if load.plan.forks else ["os._exit"]
        self.entries = hwheel.ExpiringDict(0.005)
        self.purgatory = DelayedFuturePurgatory(timer=load.adders["own"].timer)
        self.pid = None
        self.in_next_signal = False

    def fork_and_wait(self):
        """Fork, wait for the child, and record how it exited."""
        count = self.load.counts["forks"]
        name = self.exits[count // 3 % len(self.exits)]
        self.pid = None
        self.entries[count] = name
        self.purgatory.try_complete_else_watch(5, [Future()], int)
        if count % 3 == 0:
            self._fork()
        elif count % 3 == 1:
            self.load.adders["inline" if count % 2 else "own"].timer.call_later(0.001, self._fork)
        else:
            self.in_next_signal = True
        while self.pid is None:  # the signal interrupts an add or a cancel
            self.load.adders["inline"].timer.call_later(60, print).cancel()
        self.load.counts["forks"] += 1
        status = self._wait()
        if status != EXITS[name][1]:
            self.load.faults[f"child, {name}: {'hangs' if status is None else f'status {status}'}"] += 1

    def on_signal(self):
        """Fork if it is the turn of the signal handler."""
        if self.in_next_signal:
            self.in_next_signal = False
            self._fork()

    def _fork(self):
        name = self.exits[self.load.counts["forks"] // 3 % len(self.exits)]
        pid = os.fork()
        if pid:
            self.pid = pid
            return
        faulthandler.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        use(self.load)
        EXITS[name][0](self.load)

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


# --- programs -------------------------------------------------------------------------------------------------------


def fail(load):
    raise ValueError("on purpose")


PROGRAM_EXITS = EXITS | {
    "return": (lambda load: None, 0),
    "an error": (fail, 1),
    "SIGINT": (lambda load: work_until(signal.SIGINT, load), -signal.SIGINT),
}
ERRORS = {"an error": "ValueError: on purpose", "SIGINT": "KeyboardInterrupt"}  # the last line on standard error


def run_program(load, name):
    """Be a program that exits under load: start the adders, and after a moment exit."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background programs ignore it
    for adder in load.adders.values():
        adder.thread.start()
    time.sleep(load.random.random() / 5)
    PROGRAM_EXITS[name][0](load)


def fault_of_exit(command, name):
    """Run a program that exits by ``name``. Return the fault of its exit, or an empty string."""
    process = subprocess.Popen([*command, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, errors = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        return f"hangs: {process.communicate()[1]}"
    if process.returncode != PROGRAM_EXITS[name][1]:
        return f"status {process.returncode}: {out}{errors}"
    last = (errors.strip().splitlines() or [""])[-1]
    if out or last != ERRORS.get(name, "") or errors.count("Traceback") > 1:
        return f"prints {out}{errors}"
    return ""
