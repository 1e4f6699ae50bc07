"""SystemTimer with a ProcessPoolExecutor, whose calls must be picklable."""

SCRIPT = """
import contextvars
from array import array
from concurrent.futures import ProcessPoolExecutor
from glob import glob
from multiprocessing import get_context
from hwheel import SystemTimer
from waiting import eventually
import os


def note(path, text):
    # One file for each process: on Windows two processes that append to one file can overwrite each other.
    with open(f"{path}-{os.getpid()}", "a") as file:
        file.write(text + "\\n")


def fail():
    raise ValueError("on purpose")


user = contextvars.ContextVar("user", default="nobody")


def note_and_set(path, name):
    note(path, user.get())
    user.set(name)


class Note:
    def __init__(self, path):
        self.path = path

    def __call__(self, indices):
        note(self.path, "indices " + " ".join(map(str, indices)))


def main():
    path = os.path.join(os.getcwd(), "notes")
    lines = lambda: [line for file in glob(f"{path}-*") for line in open(file).read().splitlines()]
    errors = []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        with SystemTimer(executor=pool, on_error=lambda task, error: errors.append((task, error))) as timer:
            {body}


if __name__ == "__main__":
    main()
"""


def run(script, body):
    process = script(SCRIPT.replace("{body}", body.replace("\n", "\n            ")))
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, output, errors) == (0, "", "")


def test_each_kind_of_task_runs_in_another_process_and_errors_are_reported_here(script):
    """The return value of a callback need not be picklable."""
    run(
        script,
        """
timer.call_later(0.001, os.scandir)
timer.call_later(0.01, note, path, "one")
task = timer.call_later(0.02, fail)
timer.call_many(array("q", [10, 10, 10]), Note(path))
every = timer.call_every(0.01, note, path, "again")
eventually(lambda: {"one", "indices 0 1 2"} < {*lines()} and lines().count("again") >= 3 and errors)
[(source, error)] = errors
assert source is task and isinstance(error, ValueError), errors
assert every.cancel()
""",
    )


def test_close_runs_pending_tasks_in_the_other_process(script):
    run(
        script,
        """
timer.call_later(3600, note, path, "late")
assert timer.close(run_pending=True) == []
assert lines() == ["late"]
assert errors == []
""",
    )


def test_callbacks_in_the_other_process_do_not_share_context_variables(script):
    run(
        script,
        """
for name in ("one", "two", "three", "four"):
    timer.call_later(0.01, note_and_set, path, name)
eventually(lambda: lines() == ["nobody"] * 4)
""",
    )


def test_missed_task_is_reported_here_and_a_punctual_one_runs_there(script):
    run(
        script,
        """
missed = []
timer._on_missed = lambda task: missed.append(task.args)
timer.call_at(timer.time() - 60, note, path, "late", max_lateness=1)
task = timer.call_later(0.01, note, path, "in time", slack=0.01, max_lateness=3600)
eventually(lambda: lines() == ["in time"])
assert missed == [(path, "late")] and timer.stats().missed == 1, missed
assert errors == [] and not task.missed, errors
""",
    )
