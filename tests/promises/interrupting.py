"""Ctrl-C at every point of a scenario at which Python looks for signals, one run a point.

CPython looks for signals when a function begins, after each call, and when a loop goes round; nowhere else. A tracer
that sees every instruction of hwheel's Python code raises KeyboardInterrupt at the n-th such point of the thread. It
also does in the two functions of the standard library that a timer calls and that take their time, Thread.start and
Thread.join.

Each run is a process of its own, forked before there is any thread, with an alarm that ends it if it hangs.
"""

import contextlib
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

import hwheel

HERE = os.path.dirname(hwheel.__file__)
WATCHED = {HERE, os.path.join(HERE, "timers"), os.path.join(HERE, "threading")}
DEEP = {threading.Thread.start.__code__, threading.Thread.join.__code__}
HANGS_S = 15
HUNG = "it hung"


def is_watched(code: types.CodeType) -> bool:
    return os.path.dirname(code.co_filename) in WATCHED or code in DEEP


class Interruption:
    """Raises once, at the n-th point; keeps the list of points."""

    def __init__(self, at):
        self.at = at
        self.points = []
        self.raised = False
        self._before = {}  # frame -> the instruction before

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


def one_run(scenario, at, out):
    """In a process of its own."""
    faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)  # says where it hangs, and ends it
    signal.alarm(HANGS_S)
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
    out.write(json.dumps({"points": interruption.points}) + "\n")
    out.flush()


def in_a_process(scenario, at):
    """The points and the faults of one run."""
    with tempfile.TemporaryFile("a+") as out, tempfile.TemporaryFile("a+") as errors:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.dup2(errors.fileno(), 2)
            code = 1
            with contextlib.suppress(BaseException):
                one_run(scenario, at, out)
                code = 0
            os._exit(code)
        _, status = os.waitpid(pid, 0)
        out.seek(0)
        errors.seek(0)
        points, faults = [], []
        for line in out:
            said = json.loads(line)
            points = max(points, said.get("points", []), key=len)
            faults += [said["fault"]] if "fault" in said else []
        if status:
            how = HUNG if status == signal.SIGALRM else f"it ended with status {status}"
            faults.append(f"{how}\n{errors.read()}")
    return points, faults


def search(scenario, sample):
    """Prints what is broken. sample: how many points to try; None: all."""
    faulthandler.cancel_dump_traceback_later()  # a child could not set its own while this one is set
    hung = 0
    points, faults = in_a_process(scenario, -1)
    if faults:
        print("without any interruption:", *faults, sep="\n  ")
        return
    assert points, "nothing was traced"
    chosen = range(len(points))
    if sample is not None and sample < len(points):
        chosen = sorted({round(i * (len(points) - 1) / (sample - 1)) for i in range(sample)})
    for at in chosen:
        _, faults = in_a_process(scenario, at)
        if faults:
            print(f"{at}: {points[at]}", *faults, sep="\n    ")
            hung += any(HUNG in fault for fault in faults)
            if hung == 2:
                print("and maybe more: it takes too long to find out")
                return
