"""Subclasses of Timer from real programs behave the same with the standard Timer and with hwheel's."""

import threading

import pytest

import hwheel

PATIENCE_S = 60


@pytest.fixture(params=[threading.Timer, hwheel.Timer], ids=["standard", "hwheel"])
def base(request):
    return request.param


def started(timer):
    timer.start()
    timer.join(PATIENCE_S)
    assert not timer.is_alive()
    return timer


def test_a_timer_that_repeats(base):
    class RepeatTimer(base):
        def run(self):
            while not self.finished.wait(self.interval):
                self.function(*self.args, **self.kwargs)

    ticks = []
    enough = threading.Event()

    def tick(text):
        ticks.append(text)
        if len(ticks) == 5:
            enough.set()

    timer = RepeatTimer(0.005, tick, ["tick"])
    timer.start()
    assert enough.wait(PATIENCE_S)
    assert timer.is_alive()
    timer.cancel()
    timer.join(PATIENCE_S)
    assert not timer.is_alive()
    assert ticks[:5] == ["tick"] * 5


def test_an_overridden_run_may_call_the_inherited_run(base):
    class Logged(base):
        def run(self):
            log.append("begin")
            super().run()
            log.append("end")

    log = []
    timer = started(Logged(0.01, log.append, ["function"]))
    assert log == ["begin", "function", "end"]
    assert timer.finished.is_set()


def test_an_overridden_run_starts_at_once(base):
    class Other(base):
        def run(self):
            thread = threading.current_thread()
            seen.append((thread.name, thread.daemon, self.is_alive()))

    seen = []
    timer = Other(1000, int)
    timer.name, timer.daemon = "other", True
    started(timer)
    assert seen == [("other", True, True)]
    with pytest.raises(RuntimeError, match="once"):
        timer.start()


def test_an_overridden_run_that_fails(base, hook):
    class Failing(base):
        def run(self):
            raise ValueError("on purpose")

    timer = started(Failing(0, int))
    assert [(args.exc_type, args.thread) for args in hook] == [(ValueError, timer)]
    hook.clear()


def test_a_run_from_a_mixin(base):
    class Mixin:
        def run(self):
            ran.append(self)

    class Mixed(Mixin, base):
        pass

    ran = []
    timer = started(Mixed(1000, int))
    assert ran == [timer]


class Counts:
    """Counts the calls of its cancel()."""

    cancels = 0

    def cancel(self):
        self.cancels += 1
        super().cancel()


def test_the_timer_does_not_call_an_overridden_cancel(base):
    kind = type("CountsCancels", (Counts, base), {})
    before = kind(0, print)
    before.cancel()
    started(before)
    assert before.cancels == 1

    ran = []
    runs = started(kind(0, ran.append, [1]))
    assert runs.finished.is_set() and runs.cancels == 0 and ran == [1]

    never = kind(3600, print)
    never.start()
    never.finished.set()
    never.join(PATIENCE_S)
    assert never.cancels == 0 and not never.is_alive()


def test_the_timer_does_not_call_an_overridden_is_alive(base):
    class Joins(base):
        def is_alive(self):
            self.join(0)
            return super().is_alive()

    ran = []
    started(Joins(0.01, ran.append, [1]))
    assert ran == [1]


def test_an_overridden_constructor(base):
    class Named(base):
        def __init__(self, name, interval, function):
            super().__init__(interval, function, kwargs={"who": name})
            self.name = name

    seen = []
    started(Named("ann", 0, lambda who: seen.append((who, threading.current_thread().name))))
    assert seen == [("ann", "ann")]
