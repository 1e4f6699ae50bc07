"""Context variables: each callback runs in an empty context, or in the one that it was given."""

import contextlib
import contextvars
import threading
from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

from hwheel import ManualTimer, SystemTimer, TimerTask

PATIENCE_S = 60
user = contextvars.ContextVar("user", default="nobody")


class Seen:
    """A log of the values of `user` that callbacks saw."""

    def __init__(self):
        self.names = []
        self._more = threading.Condition()

    def look(self):
        with self._more:
            self.names.append(user.get())
            self._more.notify_all()

    def look_and_set(self, name):
        self.look()
        user.set(name)

    def wait(self, count):
        """Return the log as soon as it has this many entries."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.names) >= count, PATIENCE_S)
        return self.names


class Sets(TimerTask):
    def __init__(self, delay_ms, seen, name):
        super().__init__(delay_ms)
        self.seen, self.name = seen, name

    def run(self):
        self.seen.look_and_set(self.name)


KINDS = pytest.mark.parametrize("kind", ["own thread", "inline", "pool of one", "manual"])


@contextlib.contextmanager
def timer_of(kind):
    """Yield a timer. A fixture would keep the timer alive until after the check for leftover objects."""
    if kind == "manual":
        with ManualTimer() as timer:
            yield timer
    elif kind == "pool of one":
        with ThreadPoolExecutor(1) as pool, SystemTimer(executor=pool) as timer:
            yield timer
    else:
        with SystemTimer(executor=None if kind == "own thread" else "inline") as timer:
            yield timer


def live(timer, seconds):
    if isinstance(timer, ManualTimer):
        timer.advance(seconds)


@KINDS
def test_callbacks_do_not_share_context_variables(kind):
    with timer_of(kind) as timer:
        seen = Seen()
        user.set("the adder")
        timer.call_later(0.01, seen.look_and_set, "a call")
        timer.add(Sets(11, seen, "a subclass"))
        timer.call_many(array("q", [12]), lambda indices: seen.look_and_set("a batch"))
        timer.call_every(0.013, seen.look_and_set, "a periodic")
        live(timer, 0.1)
        assert set(seen.wait(8)) == {"nobody"}
        timer.close()
        assert user.get() == "the adder"


@KINDS
def test_failed_callback_leaves_no_context_variable(kind):
    with timer_of(kind) as timer:
        seen = Seen()

        def fail():
            user.set("somebody")
            raise ValueError("on purpose")

        timer._raises = False
        timer._on_error = lambda source, error: seen.look()
        timer.call_later(0.01, fail)
        timer.call_later(0.011, seen.look)
        live(timer, 0.1)
        names = seen.wait(2)
        assert names[-1] == "nobody"


@KINDS
def test_context_variable_that_was_reset_does_not_reach_later_callbacks(kind):
    with timer_of(kind) as timer:
        seen = Seen()

        def set_and_reset():
            user.reset(user.set("somebody"))
            seen.look()

        timer.call_later(0.01, set_and_reset)
        timer.call_later(0.011, seen.look)
        live(timer, 0.1)
        assert seen.wait(2) == ["nobody", "nobody"]


@KINDS
@pytest.mark.parametrize("add", ["call_later", "call_at", "call_every"])
def test_callback_runs_in_its_context_argument(kind, add):
    with timer_of(kind) as timer:
        seen = Seen()
        context = contextvars.copy_context()
        context.run(user.set, "the adder")
        when = timer.time() + 0.01 if add == "call_at" else 0.01
        task = getattr(timer, add)(when, seen.look_and_set, "a callback", context=context)
        timer.call_later(0.012, seen.look)
        live(timer, 0.015)
        assert sorted(seen.wait(2)[:2]) == ["nobody", "the adder"]
        task.cancel()
        assert context[user] == "a callback"


@KINDS
def test_context_that_is_already_entered_is_reported_as_the_tasks_error(kind):
    with timer_of(kind) as timer:
        errors, failed = [], threading.Event()

        def on_error(source, error):
            errors.append((source, type(error)))
            failed.set()

        timer._raises = False
        timer._on_error = on_error
        context = contextvars.copy_context()

        def inside():
            task = timer.call_later(0.0, print, context=context)
            live(timer, 0.1)
            assert failed.wait(PATIENCE_S)
            return task

        assert errors == [(context.run(inside), RuntimeError)]


@KINDS
@pytest.mark.parametrize("add", ["call_later", "call_at", "call_every"])
@pytest.mark.parametrize("context", [0, {}, "main", contextvars.Context, object()])
def test_bad_context_raises_type_error(kind, add, context):
    with timer_of(kind) as timer:
        with pytest.raises(TypeError, match="context must be a contextvars.Context"):
            getattr(timer, add)(5, print, context=context)
        with pytest.raises(TypeError, match="callback"):
            getattr(timer, add)(5, None, context=contextvars.copy_context())
        assert len(timer) == 0


@KINDS
def test_run_pending_leaves_no_context_variable(kind):
    with timer_of(kind) as timer:
        seen = Seen()
        for name in ("one", "two", "three"):
            timer.call_later(3600, seen.look_and_set, name)
        timer.close(run_pending=True)
        assert seen.wait(3) == ["nobody"] * 3
        assert user.get() in ("nobody", "the adder")
