"""Raises KeyboardInterrupt at every point of a scenario at which Python handles signals, one run for each point.

CPython handles signals when a function begins, after each call, and when a loop repeats. A tracer that sees every
instruction of hwheel's Python code raises KeyboardInterrupt at the n-th such point of the thread. It also traces the
two functions of the standard library that a timer calls and that take time: Thread.start and Thread.join.

Each run is a process of its own, forked before there is any thread. An alarm ends a run that hangs.
"""

import faulthandler
import json
import opcode
import os
import signal
import sys
import tempfile
import threading
import traceback
import types
from typing import NamedTuple

import hwheel

HERE = os.path.dirname(hwheel.__file__)
WATCHED = {HERE, *(os.path.join(HERE, folder) for folder in ("cachetools", "threading", "timers"))}
STANDARD_LIBRARY = {threading.Thread.start.__code__, threading.Thread.join.__code__}
HANG_S = 15
HUNG = "the run hung"
ATTEMPTS = 8  # for a point that a run did not reach
MIN_REACHED = 0.6  # of the points


def is_watched(code: types.CodeType) -> bool:
    return os.path.dirname(code.co_filename) in WATCHED or code in STANDARD_LIBRARY


class Interruption:
    """Raises KeyboardInterrupt once, at the n-th point, and lists the points."""

    def __init__(self, at):
        self.at = at
        self.points = []
        self.raised = False
        self._before = {}  # frame -> previous instruction

    def __enter__(self):
        sys.settrace(self._enter)
        return self

    def __exit__(self, *exc_info):
        self.stop()

    def stop(self):
        sys.settrace(None)
        self._before.clear()

    def _enter(self, frame, event, arg):
        if not is_watched(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self._point(frame, "begin")
        return self._step

    def _step(self, frame, event, arg):
        if event == "opcode":
            name = opcode.opname[frame.f_code.co_code[frame.f_lasti]]
            before = self._before.get(frame, "")
            self._before[frame] = name
            if before.startswith(("CALL", "JUMP_BACKWARD")) and not before.startswith("CALL_INTRINSIC"):
                self._point(frame, "called" if before.startswith("CALL") else "loop")
        elif event in ("return", "exception"):  # after a call that raises, CPython does not check for signals
            self._before.pop(frame, None)
        return self._step

    def _point(self, frame, kind):
        code = frame.f_code
        self.points.append(f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_qualname} {kind}")
        if len(self.points) - 1 == self.at and not self.raised:
            self.raised = True
            self.stop()
            raise KeyboardInterrupt


def run_scenario(scenario, at, out):
    """Run in this process, and write the faults and points to a file."""
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)  # prints the stacks, and ends a run that hangs
    signal.alarm(HANG_S)
    interruption = Interruption(at)
    main = os.getpid()
    faults = []
    try:
        faults = scenario(interruption)
    except BaseException:
        faults = [traceback.format_exc()]
    where = "" if os.getpid() == main else "in the forked child: "
    for fault in faults:
        out.write(json.dumps({"fault": where + fault}) + "\n")
    out.write(json.dumps({"points": interruption.points, "raised": interruption.raised}) + "\n")
    out.flush()


class Run(NamedTuple):
    points: list
    faults: list
    raised: bool


def run_in_child(scenario, at):
    """Run a scenario in a forked process, with an interrupt at point `at` (-1: none)."""
    with tempfile.TemporaryFile("a+") as out, tempfile.TemporaryFile("a+") as errors:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.dup2(errors.fileno(), 2)
            code = 1
            try:
                run_scenario(scenario, at, out)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        out.seek(0)
        errors.seek(0)
        lines = [json.loads(line) for line in out]
        faults = [line["fault"] for line in lines if "fault" in line]
        ends = [line for line in lines if "points" in line]  # of the run, and of the child that it may fork
        if status:
            how = HUNG if status == signal.SIGALRM else f"it ended with status {status}"
            faults.append(f"{how}\n{errors.read()}")
    points = max((end["points"] for end in ends), key=len, default=[])
    return Run(points, faults, any(end["raised"] for end in ends))


def first_that_reaches(scenario, at):
    """Return the first run that the interrupt struck or that has faults, or else the last of ATTEMPTS runs."""
    for _ in range(ATTEMPTS):
        run = run_in_child(scenario, at)
        if run.raised or run.faults:
            break
    return run


def search(scenario, sample):
    """Print the faults of all points, or of a sample of so many points.

    The points vary from run to run: a thread that has ended already is not joined. So a point that was not reached is
    tried again, and most points must be reached in the end.
    """
    faulthandler.cancel_dump_traceback_later()  # otherwise the children could not set their own
    hung = raised = 0
    points, faults, _ = run_in_child(scenario, -1)
    if faults:
        print("without an interrupt:", *faults, sep="\n  ")
        return
    assert points, "no point was traced"
    chosen = range(len(points))
    if sample is not None and sample < len(points):
        chosen = sorted({round(i * (len(points) - 1) / (sample - 1)) for i in range(sample)})
    for at in chosen:
        run = first_that_reaches(scenario, at)
        raised += run.raised
        if run.faults:
            print(f"{at}: {points[at]}", *run.faults, sep="\n    ")
            hung += any(HUNG in fault for fault in run.faults)
            if hung == 2:
                print("stopped after two runs that hung")
                return
    if raised < MIN_REACHED * len(chosen):
        print(f"only {raised} of {len(chosen)} points were interrupted")
