"""Runs tests on one mutant after the other, each in a process of its own, which is forked when everything is imported.

Started by campaign.py, with the module that has all mutants first on the path. Reads a plan, as JSON, from standard
input; says of each mutant, as a line of JSON, what ended it: {"mutant": 7, "end": "failed", "test": "tests/unit/..."};
with an empty `end` it has survived. Mutant 0 is the wheel itself: of that it says which test took how long, and which
statements each has reached.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

WALL_S = 60  # so long a test may take longer than usual without using a processor
MEMORY = 8 << 30
HW_MUTANTS = 4096  # mutant.h
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
OPTIONS += ["-W", "ignore::DeprecationWarning"]  # of forks beside threads


def wheel_variable(kind: Any, name: str) -> Any:
    """A global of mutant.h in this process."""
    import hwheel_core

    return kind.in_dll(ctypes.PyDLL(hwheel_core._core.__file__), name)


class Watch:
    """In the process of a mutant: takes the tests that reach it, tells which one runs, and bounds its time."""

    def __init__(self, say: int, usual: dict[str, float], chosen: set[str] | None, reached: Path | None) -> None:
        self.say, self.usual, self.chosen, self.reached = say, usual, chosen, reached

    def tell(self, **what: Any) -> None:
        line = json.dumps(what).encode() + b"\n"
        while line:
            line = line[os.write(self.say, line) :]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Has Hypothesis stop at the first way to break it, and not look for the shortest; and the programs that tests
        start import what this process has imported."""
        from hypothesis import Phase, settings

        import programs
        import sampling

        environment, ours = programs.environment, os.environ["PYTHONPATH"]
        programs.environment = lambda: (
            environment() | {"PYTHONPATH": os.pathsep.join([ours, environment()["PYTHONPATH"]])}
        )

        explored = sampling.search_settings
        quick = [Phase.explicit, Phase.generate]
        sampling.search_settings = lambda *args, **kwargs: settings(explored(*args, **kwargs), phases=quick)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.chosen is not None:
            items[:] = [item for item in items if item.nodeid in self.chosen]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self.began = time.process_time()
        # The signal ends the process, whatever it does. Where nobody waits for something, a hang uses the processor.
        signal.setitimer(signal.ITIMER_PROF, 3 + 4 * self.usual.get(item.nodeid, 25))
        self.tell(test=item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.tell(test=report.nodeid, failed=True)
        if report.when == "teardown":
            took = time.process_time() - self.began
            self.tell(test=report.nodeid, took=took, reached=self.take_reached() if self.reached else [])

    def take_reached(self) -> list[int]:
        """What this process and those that it has started have reached since the last time."""
        here = wheel_variable(ctypes.c_char * HW_MUTANTS, "hw_reached")
        maps = [here.raw]
        ctypes.memset(here, 0, HW_MUTANTS)
        if self.reached.exists():
            said = self.reached.read_bytes()
            maps += [said[at : at + HW_MUTANTS] for at in range(0, len(said), HW_MUTANTS)]
            self.reached.unlink()
        return sorted({at for one in maps for at, flag in enumerate(one) if flag})


def run_tests(mutant: int, plan: dict[str, Any], paths: list[str], say: int) -> None:
    """The rest of this process."""
    status = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with Path(plan["logs"], f"{mutant}.txt").open("a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ["HWHEEL_MUTANT"] = str(mutant)
        wheel_variable(ctypes.c_int, "hw_mutant").value = mutant
        chosen = set(plan["reaching"][str(mutant)]) if mutant else None
        reached = None if mutant else Path(plan["logs"], "reached")
        if reached:
            os.environ["HWHEEL_REACHED"] = str(reached)
        status = int(pytest.main([*OPTIONS, *paths], plugins=[Watch(say, plan["usual"], chosen, reached)]))
        if status == pytest.ExitCode.NO_TESTS_COLLECTED:
            status = 0
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


class Run:
    """A mutant at work."""

    def __init__(self, mutant: int, plan: dict[str, Any], stage: int = 0) -> None:
        self.mutant, self.plan, self.stage = mutant, plan, stage
        self.test, self.failed, self.heard = "before all tests", False, b""
        self.took: dict[str, float] = {}
        self.reached: dict[str, list[int]] = {}
        self.last = time.monotonic()
        self.hears, say = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.hears)
            run_tests(mutant, plan, plan["stages"][stage], say)
        os.close(say)
        os.set_blocking(self.hears, False)

    def listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.hears, 1 << 16):
                self.heard += data
                self.last = time.monotonic()
        *lines, self.heard = self.heard.split(b"\n")
        for line in lines:
            said = json.loads(line)
            self.test = said["test"]
            self.failed |= said.get("failed", False)
            if "took" in said:
                self.took[self.test], self.reached[self.test] = said["took"], said["reached"]

    def end(self) -> str | None:
        """What came of it; None while it runs; "" if all tests have passed."""
        self.listen()
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        if not ended:
            if time.monotonic() - self.last < WALL_S + 10 * self.plan["usual"].get(self.test, 20):
                return None
            self.kill()
            os.waitpid(self.pid, 0)
            return self.close("hung")
        self.listen()
        self.kill()  # what its tests have started
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return self.close("hung" if number == signal.SIGPROF else signal.Signals(number).name)
        code = os.WEXITSTATUS(status)
        if code == 0:
            return self.close("")
        return self.close("failed" if self.failed else f"status {code}")

    def close(self, end: str) -> str:
        os.close(self.hears)
        return end

    def kill(self) -> None:
        for kill in os.killpg, os.kill:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)


def warm_up() -> None:
    """Imports what tests import, so that no mutant has to."""
    import hypothesis.stateful  # noqa: F401
    import numpy  # noqa: F401
    import pyarrow  # noqa: F401

    import hwheel.asyncio
    import hwheel.purgatory
    import hwheel.replay
    import hwheel.sched  # noqa: F401


def main() -> None:
    plan = json.load(sys.stdin)
    warm_up()
    waiting = plan["mutants"][::-1]
    running: list[Run] = []
    while waiting or running:
        while waiting and len(running) < plan["jobs"]:
            running.append(Run(waiting.pop(), plan))
        time.sleep(0.005)
        for run in [*running]:
            end = run.end()
            if end is None:
                continue
            running.remove(run)
            if end == "" and run.mutant and run.stage + 1 < len(plan["stages"]):
                running.append(Run(run.mutant, plan, run.stage + 1))
                continue
            said = {"mutant": run.mutant, "end": end, "test": run.test}
            if not run.mutant:
                said |= {"took": run.took, "reached": run.reached}
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
