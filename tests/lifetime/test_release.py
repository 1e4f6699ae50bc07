"""Cancel and expiry release the callback and its arguments at once."""

import contextlib
import functools
import gc
import time
import weakref
from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

from hwheel import ManualTimer, SystemTimer, TimerClosed, TimerFull, TimerTask, TimingWheel
from threads import ManualExecutor
from waiting import PATIENCE_WITH_MACHINE_S


class Thing:
    """An object whose release a weak reference shows."""

    def method(self, *args, **kwargs):
        pass


def take(*args, **kwargs):
    """A callback that does nothing."""


def fail(*args, **kwargs):
    raise ValueError


CALLS = {  # kind -> (callback, args, kwargs), one of which holds the thing
    "bound method": lambda thing: (thing.method, (), {}),
    "closure": lambda thing: (lambda: thing, (), {}),
    "partial": lambda thing: (functools.partial(take, thing), (), {}),
    "one argument": lambda thing: (take, (thing,), {}),
    "one argument, a tuple": lambda thing: (take, ((thing, 1),), {}),
    "many arguments": lambda thing: (take, (1, thing, 2), {}),
    "keyword": lambda thing: (take, (), {"thing": thing}),
    "arguments and keyword": lambda thing: (take, (1, [2]), {"thing": [thing]}),
    "a callback that raises": lambda thing: (fail, (thing, 1), {}),
}


def make(kind, delay_ms=50, cls=TimerTask):
    """Return a task that holds the only reference to a Thing, and a weak reference to the Thing."""
    thing = Thing()
    callback, args, kwargs = CALLS[kind](thing)
    return cls(delay_ms, callback, *args, **kwargs), weakref.ref(thing)


class Subclass(TimerTask):
    """A subclass with a dict and without a run()."""


@pytest.fixture
def make_by_hand(make_timer, hand_clock):
    """Return a factory of timers that run callbacks in advance_clock() by a clock that the test sets."""
    options = {"executor": "inline", "clock": hand_clock, "reaper": False, "on_error": lambda task, error: None}
    return functools.partial(make_timer, **options)


@pytest.mark.parametrize("cls", [TimerTask, Subclass])
@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize("ending", ["cancel", "cancel before the add", "expire", "poll and run"])
def test_the_end_of_a_referenced_task_releases(make_by_hand, hand_clock, no_gc, ending, kind, cls):
    timer, wheel = make_by_hand(), TimingWheel()
    task, thing = make(kind, cls=cls)
    if ending == "poll and run":
        wheel.add(task, 50)
        assert wheel.poll(50) == [task]
    elif ending != "cancel before the add":
        timer.add(task)
    assert thing() is not None
    if ending == "expire":
        hand_clock.ms += 50
        assert timer.advance_clock(0) and task.expired
    elif ending == "poll and run":
        with contextlib.suppress(ValueError):
            task.run()
    else:
        assert task.cancel()
    assert thing() is None
    assert (task.callback, task.args, task.kwargs) == (None, None, None)


@pytest.mark.parametrize("executor", ["own thread", "inline", "pool"])
@pytest.mark.parametrize("kind", CALLS)
def test_expiry_in_a_thread_releases(no_gc, eventually, executor, kind):
    with ThreadPoolExecutor(1) as pool:
        chosen = {"own thread": None, "inline": "inline", "pool": pool}[executor]
        with SystemTimer(executor=chosen, on_error=lambda task, error: None) as timer:
            task, thing = make(kind, delay_ms=1)
            timer.add(task)
            eventually(lambda: thing() is None, "the release")
            assert task.expired


class OwnRun(TimerTask):
    """A task with a run() of its own."""

    def run(self):
        pass


def task_and_thing(kind):
    if kind != "own run()":
        return make(kind, delay_ms=1)
    task = OwnRun(1)
    task.thing = Thing()
    return task, weakref.ref(task.thing)


@pytest.mark.parametrize("kind", [*CALLS, "own run()"])
def test_expiry_in_an_executor_releases_while_the_reaper_sleeps(no_gc, eventually, kind):
    # Without a GIL, an object that the reaper created is released when the reaper runs Python code again, unless the
    # reaper passed it on. Here the reaper sleeps until the timer is closed.
    executor = ManualExecutor()
    with SystemTimer(executor=executor, on_error=lambda task, error: None) as timer:
        task, thing = task_and_thing(kind)
        timer.add(task)
        del task
        call, args = executor.calls.get(timeout=PATIENCE_WITH_MACHINE_S)
        time.sleep(0.05)  # the reaper goes to sleep; if it is slower, the test only finds less
        call(*args)
        del call, args
        eventually(lambda: thing() is None, "the release", patience_s=10)


def test_the_task_is_released_before_its_callback_runs(make_by_hand, hand_clock, no_gc):
    timer = make_by_hand()
    seen = []
    task = timer.add(TimerTask(50, lambda *args: seen.append((task.callback, task.args, task.kwargs)), 1))
    hand_clock.ms += 50
    timer.advance_clock(0)
    assert seen == [(None, None, None)]


def test_a_periodic_task_releases_its_callback_at_cancel(make_by_hand, hand_clock, no_gc):
    timer = make_by_hand()
    for in_the_callback in (False, True):
        thing = Thing()
        alive = weakref.ref(thing)
        task = timer.call_every(0.01, (lambda thing: task.cancel()) if in_the_callback else take, thing)
        del thing
        hand_clock.ms += 10
        timer.advance_clock(0)
        if not in_the_callback:
            assert alive() is not None
            assert task.cancel()
        assert alive() is None


@pytest.mark.parametrize("ending", ["cancel", "expire"])
@pytest.mark.parametrize("through", ["argument", "closure"])
def test_a_cycle_of_a_task_and_its_callback_is_broken(make_by_hand, hand_clock, no_gc, through, ending):
    timer = make_by_hand()

    def add():
        thing = Thing()
        callback, arguments = (Thing.method, (thing,)) if through == "argument" else (lambda: (task, thing), ())
        thing.task = task = timer.call_later(0.05, callback, *arguments)
        if ending == "cancel":
            task.cancel()
        return weakref.ref(thing)

    alive = add()
    if ending == "expire":
        assert alive() is not None
        hand_clock.ms += 50
        timer.advance_clock(0)
    assert alive() is None


@pytest.mark.parametrize("where", ["wheel", "manual"])
def test_a_dropped_wheel_or_manual_timer_releases_its_tasks(no_gc, where):
    things = []
    owner = TimingWheel() if where == "wheel" else ManualTimer()
    for delay_ms in (10, 1000, 10**9):
        task, thing = make("many arguments", delay_ms)
        things.append(thing)
        owner.add(task, delay_ms) if where == "wheel" else owner.add(task)
    if where == "manual":
        thing = Thing()
        things.append(weakref.ref(thing))
        owner.call_many(array("q", [5, 10**9]), thing.method)
        del thing
    assert all(thing() is not None for thing in things)
    del task, owner
    assert all(thing() is None for thing in things)


def test_tasks_that_close_returned_are_released_with_the_list(make_by_hand, no_gc):
    timer = make_by_hand()
    things = []
    for kind in CALLS:
        task, thing = make(kind, 10**9)
        timer.add(task)
        things.append(thing)
    thing = Thing()
    things.append(weakref.ref(thing))
    timer.call_many(array("q", [10**9]), thing.method)
    del thing, task
    returned = timer.close()
    assert all(thing() is not None for thing in things)
    del returned
    assert all(thing() is None for thing in things)


def test_cycles_that_close_returned_are_collected(make_by_hand):
    timer = make_by_hand()
    thing = Thing()
    alive = weakref.ref(thing)
    thing.task = timer.call_later(3600, Thing.method, thing, [thing])
    returned = timer.close()
    del thing
    gc.collect()
    assert alive() is not None
    del returned
    gc.collect()
    assert alive() is None


class Knot(TimerTask):
    """A task in a cycle that the release of its callback does not break."""

    def __init__(self, delay_ms):
        super().__init__(delay_ms)
        self.me = self

    def run(self):
        pass


@pytest.mark.parametrize("ending", ["cancel", "expire", "close", "cancel before add"])
def test_a_subclass_in_a_cycle_is_collected_after_its_end(make_by_hand, hand_clock, ending):
    timer = make_by_hand()
    task = Knot(50)
    alive = weakref.ref(task)
    if ending == "cancel before add":
        task.cancel()
    timer.add(task)
    if ending == "cancel":
        task.cancel()
    del task
    gc.collect()
    if ending in ("expire", "close"):
        assert alive() is not None
    if ending == "expire":
        hand_clock.ms += 50
        timer.advance_clock(0)
    elif ending == "close":
        timer.close()
    gc.collect()
    assert alive() is None


def test_a_subclass_in_a_cycle_that_a_wheel_returned_is_collected():
    wheel = TimingWheel()
    task = Knot(50)
    alive = weakref.ref(task)
    wheel.add(task, 50)
    refused = Knot(0)
    refused_alive = weakref.ref(refused)
    assert wheel.add(refused, 0) is False
    assert wheel.poll(50) == [task]
    del task, refused
    gc.collect()
    assert alive() is None and refused_alive() is None


def test_a_closed_timer_in_a_cycle_with_its_clock_and_callbacks_is_collected():
    class Owner:
        def __init__(self):
            self.timer = SystemTimer(clock=self.clock, on_error=self.failed)
            self.task = self.timer.call_later(3600, self.failed, self.timer)
            self.batch = self.timer.call_many(array("q", [10**9]), self.failed)

        def clock(self):
            return 1_000_000

        def failed(self, *args):
            pass

    owner = Owner()
    alive = weakref.ref(owner)
    owner.timer.close()
    del owner
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("end", ["run", "cancel", "full", "another", "overflow", "closed"])
def test_an_extended_batch_releases_its_callback(no_gc, end):
    timer = ManualTimer(start_ms=1, max_pending=3)
    callback = Thing().method
    gone = weakref.ref(callback.__self__)
    batch = timer.call_many(array("q"), callback)
    if end == "full":
        with pytest.raises(TimerFull):
            batch.extend(array("q", [1, 2, 3, 4]), callback)
    elif end == "overflow":
        with pytest.raises(OverflowError):
            batch.extend(array("q", [1, 2**63 - 1]), callback)
    elif end == "closed":
        timer.close()
        with pytest.raises(TimerClosed):
            batch.extend(array("q", [1]), callback)
    else:
        batch.extend(array("q", [1, 2]), callback)
        if end == "another":
            with pytest.raises(ValueError):
                batch.extend(array("q", [1]), print)
    assert (batch.callback is None) == (end in ("full", "overflow", "closed"))
    del callback
    if end == "cancel":
        batch.cancel([0])
        batch.cancel([1])
    elif end in ("run", "another"):
        timer.advance(1)
    assert gone() is None
    assert batch.callback is None


def test_a_batch_does_not_keep_its_timer_alive(no_gc):
    timer = ManualTimer()
    batch = timer.call_many(array("q", [5]), print)
    batch.extend(array("q", [5]))
    gone = weakref.ref(timer)
    del timer
    assert gone() is None
    assert batch.pending == 2
