"""Properties of hwheel.Timer that cannot be tested with threading.Timer."""

import gc
import threading
import time
import weakref
from contextvars import ContextVar

import pytest

import hwheel
import hwheel.threading
from hwheel_core import IDLE_NAME
from sampling import seeded_random
from systems import collect_if_free_threaded
from waiting import eventually

PATIENCE_S = 60
FAR_OFF_S = 1000


@pytest.mark.parametrize(
    ("interval", "error"),
    [(None, TypeError), ("1", TypeError), (True, TypeError), (float("nan"), ValueError), (float("inf"), ValueError)],
)
def test_a_bad_interval_is_an_error_at_start_and_changes_nothing(interval, error):
    calls = []
    timer = hwheel.Timer(interval, calls.append, [1])
    with pytest.raises(error):
        timer.start()
    assert not timer.is_alive()
    timer.interval = 0
    timer.start()
    timer.join()
    assert calls == [1]


def test_each_function_has_its_own_context_variables():
    variable = ContextVar("variable", default="initial")
    seen = []

    def change():
        seen.append(variable.get())
        variable.set("changed")

    for _ in range(20):
        timer = hwheel.Timer(0, change)
        timer.start()
        timer.join()
    assert seen == ["initial"] * 20


def test_an_expired_timer_can_be_cancelled_until_its_function_begins(monkeypatch):
    jobs = []
    expired = threading.Event()

    class HoldingPool:
        def submit(self, job):
            jobs.append(job)
            expired.set()

    monkeypatch.setitem(hwheel.threading.timer._engine._pools, False, HoldingPool())
    calls = []
    timer = hwheel.Timer(0, calls.append, [1])
    timer.start()
    assert expired.wait(PATIENCE_S)
    timer.cancel()
    assert timer.is_alive()
    threading.Thread(target=jobs.pop()).start()
    timer.join(PATIENCE_S)
    assert not timer.is_alive()
    assert calls == []


def test_a_timer_that_no_pool_takes_is_over_and_reports_the_error(monkeypatch, hook):
    class RefusingPool:
        def submit(self, job):
            raise MemoryError

    calls = []
    timer = hwheel.Timer(0, calls.append, [1])
    with monkeypatch.context() as patch:
        patch.setitem(hwheel.threading.timer._engine._pools, False, RefusingPool())
        timer.start()
        timer.join(PATIENCE_S)
    assert not timer.is_alive() and calls == []
    eventually(lambda: [args.exc_type for args in hook] == [MemoryError])


def test_two_concurrent_starts_run_it_once(monkeypatch, gate):
    engine = hwheel.threading.timer._engine
    clock = engine.timer

    class Racing:
        def call_later(self, *args):
            monkeypatch.setattr(engine, "timer", clock)
            with pytest.raises(RuntimeError, match="once"):
                timer.start()
            return clock.call_later(*args)

    calls = []
    timer = hwheel.Timer(0.001, lambda: (calls.append("timer"), gate.wait(PATIENCE_S)))
    monkeypatch.setattr(engine, "timer", Racing())
    timer.start()
    later = hwheel.Timer(0.05, calls.append, ["later"])
    later.start()
    later.join(PATIENCE_S)
    gate.set()
    timer.join(PATIENCE_S)
    assert calls == ["timer", "later"]


@pytest.mark.parametrize("method", ["_pending_or_done", "_take_back"])
def test_a_task_that_ends_during_a_search_of_the_pending_ones(method, monkeypatch):
    """Its arguments are gone at the second read."""
    engine = hwheel.threading.timer._engine
    timer = hwheel.Timer(FAR_OFF_S, int)

    class Ending:
        args_left = [(timer,)]

        @property
        def args(self):
            return self.args_left.pop() if self.args_left else None

        def cancel(self):
            return False

    class Clock:
        def pending(self):
            return [Ending()]

    monkeypatch.setattr(engine, "timer", Clock())
    monkeypatch.setattr(engine, "_keeping", engine._keeping)
    if method == "_take_back":
        timer._take_back(engine)
    else:
        assert engine._pending_or_done() == [timer]
    assert not Ending.args_left


class WithItsOwnRun(hwheel.Timer):
    """Has a thread of its own from start() on."""

    def run(self):
        self.function()


@pytest.mark.parametrize("kind", [hwheel.Timer, WithItsOwnRun])
def test_a_start_for_which_no_thread_can_be_created_changes_nothing(kind, monkeypatch):
    """A timer that starts while the interpreter exits needs a thread, the keeper."""
    calls = []
    timer = kind(0.01 if kind is WithItsOwnRun else FAR_OFF_S, lambda: calls.append(1))
    engine = hwheel.threading.timer._engine
    pending = len(engine.timer)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(engine, "exiting", True)
        patch.setattr(engine, "_keeping", False)
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            timer.start()
    try:
        assert not timer.is_alive() and len(engine.timer) == pending
        with pytest.raises(RuntimeError, match="before it is started"):
            timer.join()
        timer.interval = 0.01
        timer.start()
        timer.join(PATIENCE_S)
        assert calls == [1]
    finally:
        timer.cancel()  # otherwise the interpreter waits for it


class Thing:
    """An object with weak references."""


@pytest.mark.parametrize("interval", [0, FAR_OFF_S], ids=["expired", "cancelled"])
def test_a_timer_that_is_over_is_released(interval):
    gc.collect()
    gc.disable()
    try:
        thing = Thing()
        timer = hwheel.Timer(interval, lambda it: None, [thing])
        seen = weakref.ref(thing)
        timer.start()
        if interval:
            timer.cancel()
        timer.join()
        del timer, thing
        give_up = time.monotonic() + PATIENCE_S
        while collect_if_free_threaded() or seen() is not None:  # its thread is about to drop the last reference
            assert time.monotonic() < give_up
            time.sleep(0.001)
    finally:
        gc.enable()


def test_concurrent_starts_and_cancels_run_each_timer_at_most_once():
    calls = [0] * 200

    def count(i):
        calls[i] += 1

    timers = [hwheel.Timer(0.001 * (i % 7), count, [i]) for i in range(200)]

    def use(act):
        for timer in timers:
            try:
                act(timer)
            except RuntimeError:  # the other thread has started it
                assert act is hwheel.Timer.start

    actions = [hwheel.Timer.start, hwheel.Timer.start, hwheel.Timer.cancel, repr]
    threads = [threading.Thread(target=use, args=(act,)) for act in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for timer in timers:
        timer.join(PATIENCE_S)
        assert not timer.is_alive()
    assert max(calls) <= 1


def test_finished_that_is_first_read_in_the_function_is_set_after_it():
    seen = []
    timer = hwheel.threading.Timer(0.001, lambda: seen.append((timer.finished, timer.finished.is_set())))
    timer.start()
    timer.join(PATIENCE_S)
    ((finished, was_set),) = seen
    assert not was_set and finished.is_set()


def test_after_the_function_its_thread_has_the_idle_name(eventually):
    threads = []
    timer = hwheel.Timer(0, lambda: threads.append(threading.current_thread()))
    timer.name = "heartbeat"
    timer.start()
    timer.join()
    eventually(lambda: threads[0].name == IDLE_NAME)
    timer.name = "renamed"
    assert (timer.name, threads[0].name) == ("renamed", IDLE_NAME)


# --- start(): a timer is alive from then until its function ends, and a start() that fails changes nothing ------------


@pytest.fixture
def after_add(monkeypatch):
    """after_add(function): start() calls the function when the task is in the wheel and `_task` is not set yet."""
    engine = hwheel.threading.timer._create_engine()
    call_later = engine.timer.call_later

    def patch(function):
        def add(*args):
            task = call_later(*args)
            function()
            return task

        class Clock:
            pending = engine.timer.pending

        Clock.call_later = staticmethod(add)
        monkeypatch.setattr(engine, "timer", Clock)

    return patch


def test_a_function_that_runs_before_start_returns_finds_its_timer_started(after_add):
    over = threading.Event()
    seen = []

    def look():
        try:
            timer.join()
        except RuntimeError as error:
            seen.append((timer.is_alive(), "started" in repr(timer), str(error)))
        over.set()

    timer = hwheel.Timer(0, look)
    after_add(lambda: over.wait(PATIENCE_S))
    timer.start()
    timer.join(PATIENCE_S)
    assert seen == [(True, True, "cannot join current thread")]
    assert not timer.is_alive() and timer.finished.is_set()


def test_cancel_and_join_before_start_returns(after_add, eventually):
    joiners = []

    def join_and_cancel():
        joiners.append(threading.Thread(target=timer.join, daemon=True))
        joiners[0].start()
        eventually(lambda: timer._over_event is not None)
        timer.cancel()

    ran = []
    timer = hwheel.Timer(3600, ran.append, [1])
    after_add(join_and_cancel)
    timer.start()
    joiners[0].join(PATIENCE_S)
    assert not joiners[0].is_alive() and not timer.is_alive() and not ran


def test_an_interrupted_start_does_not_start_the_timer(after_add, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    ran = []
    timer = hwheel.Timer(0.3, ran.append, [1])
    after_add(interrupt)
    with pytest.raises(KeyboardInterrupt):
        timer.start()
    monkeypatch.undo()
    assert not timer.is_alive()
    timer.interval = 0.6
    timer.start()
    with pytest.raises(RuntimeError):
        timer.start()
    timer.join(PATIENCE_S)
    assert ran == [1]


def test_an_error_of_an_overridden_name_is_reported_and_ends_the_timer(hook):
    class Nameless(hwheel.Timer):
        @property
        def name(self):
            raise LookupError("no name")

    timer = Nameless(0, int)
    timer.start()
    timer.join(PATIENCE_S)
    assert not timer.is_alive()
    assert [args.exc_type for args in hook] == [LookupError]


@pytest.mark.parametrize(
    ("attribute", "field"), [("is_alive", "_task"), ("ident", "_runner"), ("native_id", "_runner")]
)
def test_fields_that_a_failing_start_resets_are_read_once(attribute, field):
    reads = []

    class Started:
        cancelled = False

    class Reset(hwheel.Timer):
        pass

    def gone_at_the_second_read(timer):
        reads.append(field)
        return (threading.current_thread() if field == "_runner" else Started) if len(reads) == 1 else None

    timer = Reset(1, int)
    timer._task = Started
    setattr(Reset, field, property(gone_at_the_second_read))
    value = getattr(timer, attribute)
    assert value() if attribute == "is_alive" else value
    assert len(reads) == 1


# --- many timers, and functions that block ----------------------------------------------------------------------------


def test_a_hundred_thousand_timers_need_few_threads_and_run_once_each():
    count = 100_000
    runs = [0] * count
    before = threading.active_count()
    dice = seeded_random(1)

    def run(i):
        runs[i] += 1

    timers = [hwheel.Timer(2 + dice.random(), run, [i]) for i in range(count)]
    for timer in timers:
        timer.start()
    peak = threading.active_count()
    assert peak <= before + 10  # (threads of other tests may still be ending)
    while any(timer.is_alive() for timer in timers[:: count // 100]) or sum(runs) < count:
        peak = max(peak, threading.active_count())
        time.sleep(0.005)
    assert runs == [1] * count
    assert peak < 100  # on a busy machine, the pool grows while its threads wait for a processor
    for timer in timers:
        timer.join(PATIENCE_S)
        assert not timer.is_alive()


def test_functions_that_block_delay_no_other_timer(gate):
    entered = threading.Semaphore(0)

    def start(daemon, seconds, function):
        timer = hwheel.Timer(seconds, function)
        timer.daemon = daemon
        timer.start()
        return timer

    for daemon in (False, True):
        for _ in range(50):
            start(daemon, 0.001, lambda: (entered.release(), gate.wait(PATIENCE_S)))
    for _ in range(100):
        assert entered.acquire(timeout=PATIENCE_S)
    for daemon in (False, True):
        for other in [start(daemon, 0.001 * i, entered.release) for i in range(50)]:
            other.join(PATIENCE_S)
            assert not other.is_alive()
    assert not gate.is_set()
