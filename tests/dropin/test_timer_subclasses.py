"""Subclasses of Timer, as programs have them, behave alike with the standard one and with hwheel's."""

import threading

import pytest

import hwheel

PATIENCE_S = 60


@pytest.fixture(params=[threading.Timer, hwheel.Timer], ids=["standard", "hwheel"])
def base(request):
    return request.param


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


def test_a_run_that_calls_the_timers(base):
    class Logged(base):
        def run(self):
            log.append("begin")
            super().run()
            log.append("end")

    log = []
    timer = Logged(0.01, log.append, ["function"])
    timer.start()
    timer.join(PATIENCE_S)
    assert log == ["begin", "function", "end"]
    assert timer.finished.is_set()


def test_a_run_that_has_nothing_to_do_with_waiting_starts_at_once(base):
    class Other(base):
        def run(self):
            seen.append((threading.current_thread().name, threading.current_thread().daemon, self.is_alive()))

    seen = []
    timer = Other(1000, int)
    timer.name, timer.daemon = "other", True
    timer.start()
    timer.join(PATIENCE_S)
    assert seen == [("other", True, True)]
    with pytest.raises(RuntimeError, match="once"):
        timer.start()


def test_a_run_of_its_own_that_fails(base, hook):
    class Failing(base):
        def run(self):
            raise ValueError("on purpose")

    timer = Failing(0, int)
    timer.start()
    timer.join(PATIENCE_S)
    assert [(args.exc_type, args.thread) for args in hook] == [(ValueError, timer)]
    hook.clear()


def test_a_run_from_a_mixin(base):
    class Mixin:
        def run(self):
            ran.append(self)

    class Mixed(Mixin, base):
        pass

    ran = []
    timer = Mixed(1000, int)
    timer.start()
    timer.join(PATIENCE_S)
    assert ran == [timer]


def test_a_cancel_of_its_own_is_called_by_nobody_else(base):
    class Counts(base):
        cancels = 0

        def cancel(self):
            self.cancels += 1
            super().cancel()

    before = Counts(0, print)
    before.cancel()
    before.start()
    before.join(PATIENCE_S)
    assert before.cancels == 1

    ran = []
    seen = Counts(0, ran.append, [1])
    finished = seen.finished
    seen.start()
    assert finished.wait(PATIENCE_S)
    seen.join(PATIENCE_S)
    assert seen.cancels == 0 and ran == [1]

    never = Counts(3600, print)
    never.start()
    never.finished.set()
    never.join(PATIENCE_S)
    assert never.cancels == 0 and not never.is_alive()


def test_an_is_alive_of_its_own_is_called_by_nobody_else(base):
    class Joins(base):
        def is_alive(self):
            self.join(0)
            return super().is_alive()

    ran = []
    timer = Joins(0.01, ran.append, [1])
    timer.start()
    timer.join(PATIENCE_S)
    assert ran == [1] and not timer.is_alive()


def test_a_constructor_and_a_cancel_of_its_own(base):
    class Named(base):
        def __init__(self, name, interval, function):
            super().__init__(interval, function, kwargs={"who": name})
            self.name = name
            self.cancels = 0

        def cancel(self):
            self.cancels += 1
            super().cancel()

    seen = []
    timer = Named("ann", 0, lambda who: seen.append((who, threading.current_thread().name)))
    timer.start()
    timer.join(PATIENCE_S)
    assert seen == [("ann", "ann")]
    assert timer.cancels == 0
    timer.cancel()
    assert timer.cancels == 1
