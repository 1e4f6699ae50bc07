"""hwheel.Timer has the manners of threading.Timer. What can be, is asked of both."""

import threading
import time

import pytest

import hwheel
import hwheel.threading

PATIENCE_S = 60
FAR_OFF_S = 1000


class Odd(BaseException):
    """Not even an Exception."""


@pytest.fixture(params=[threading.Timer, hwheel.Timer], ids=["standard", "hwheel"])
def timer_class(request):
    return request.param


@pytest.fixture
def make(timer_class):
    """make(...): a timer that is cancelled at the end of the test."""
    made = []

    def make(*args, cls=timer_class, **kwargs):
        made.append(cls(*args, **kwargs))
        return made[-1]

    yield make
    while made:  # emptied: pytest holds on to `make` while other fixtures look for what is left behind
        made.pop().cancel()


def fail(error):
    raise error


def test_it_is_where_it_is_said_to_be():
    assert hwheel.Timer is hwheel.threading.Timer
    assert issubclass(hwheel.Timer, threading.Timer)


def test_it_calls_the_function_with_its_arguments_once(make):
    calls = []
    timer = make(0.01, lambda *args, **kwargs: calls.append((args, kwargs)), [1, 2], {"three": 3})
    timer.start()
    timer.join()
    assert calls == [((1, 2), {"three": 3})]
    assert timer.finished.is_set()
    assert not timer.is_alive()


def test_it_takes_keywords(make):
    calls = []
    timer = make(interval=0, function=calls.append, args=["x"], kwargs=None)
    timer.start()
    timer.join()
    assert calls == ["x"]


@pytest.mark.parametrize("interval", [0, -1, -0.5, 0.0])
def test_no_interval_is_at_once_and_not_in_the_caller(make, interval):
    where = []
    timer = make(interval, lambda: where.append(threading.get_ident()))
    timer.start()
    timer.join()
    assert where
    assert where != [threading.get_ident()]


def test_it_is_never_early(make):
    """On the system's clock, at intervals that are no whole milliseconds."""
    calls = []
    timers = []
    for i in range(100):
        interval = 0.0003 * i + 0.00001
        timers.append(make(interval, lambda due: calls.append(time.monotonic() - due), [time.monotonic() + interval]))
        timers[-1].start()
    for timer in timers:
        timer.join()
    assert len(calls) == 100
    assert min(calls) >= 0


def test_starting_twice_is_an_error(make):
    timer = make(FAR_OFF_S, int)
    timer.start()
    with pytest.raises(RuntimeError, match="once"):
        timer.start()
    timer.cancel()
    timer.join()
    with pytest.raises(RuntimeError, match="once"):
        timer.start()


def test_a_cancelled_timer_calls_nothing_and_is_over(make):
    calls = []
    timer = make(0.05, calls.append, [1])
    timer.start()
    assert timer.is_alive()
    timer.cancel()
    timer.join()
    assert not timer.is_alive()
    assert timer.finished.is_set()
    later = make(0.1, int)
    later.start()
    later.join()
    assert calls == []
    timer.cancel()


@pytest.mark.parametrize("interval", [0, FAR_OFF_S])
def test_cancel_before_start(make, interval):
    calls = []
    timer = make(interval, calls.append, [1])
    timer.cancel()
    assert timer.finished.is_set()
    timer.start()
    timer.join()
    assert calls == []
    assert not timer.is_alive()
    with pytest.raises(RuntimeError):
        timer.start()


def test_cancel_afterwards_does_nothing(make):
    calls = []
    timer = make(0, calls.append, [1])
    timer.start()
    timer.join()
    timer.cancel()
    timer.cancel()
    assert calls == [1]


def test_to_set_finished_is_to_cancel(make):
    calls = []
    timer = make(FAR_OFF_S, calls.append, [1])
    timer.start()
    timer.finished.set()
    timer.join()
    assert not timer.is_alive()
    assert calls == []


def test_finished_is_the_same_event_and_comes_with_the_cancel(make):
    timer = make(FAR_OFF_S, int)
    finished = timer.finished
    assert isinstance(finished, threading.Event)
    assert not finished.is_set()
    timer.start()
    timer.cancel()
    assert finished.is_set()
    assert timer.finished is finished


def test_finished_may_be_replaced(make):
    calls = []
    timer = make(0.02, calls.append, [1])
    timer.finished = threading.Event()
    timer.start()
    timer.finished.set()
    timer.join()
    assert calls == []


def test_what_is_changed_before_it_fires_counts(make):
    calls = []
    timer = make(FAR_OFF_S, fail, [1])
    timer.interval = 0.05
    timer.start()
    timer.function = lambda *args, **kwargs: calls.append((args, kwargs))
    timer.args = (2,)
    timer.kwargs["x"] = 3
    timer.join()
    assert calls == [((2,), {"x": 3})]


def test_arguments_by_default_are_empty_and_its_own(make):
    one, other = make(1, int), make(1, int)
    assert (one.args, one.kwargs) == ([], {})
    assert one.args is not other.args
    assert one.kwargs is not other.kwargs


def test_join_waits_for_the_function(make, gate):
    entered = threading.Event()
    timer = make(0, lambda: (entered.set(), gate.wait(PATIENCE_S)))
    timer.start()
    assert entered.wait(PATIENCE_S)
    timer.join(0.01)
    timer.join(-1)
    assert timer.is_alive()
    timer.cancel()  # too late: it runs on
    assert timer.is_alive()
    gate.set()
    timer.join(PATIENCE_S)
    assert not timer.is_alive()


def test_join_before_start_or_within_is_an_error(make):
    timer = make(0, lambda: timer.join())
    with pytest.raises(RuntimeError, match="before it is started"):
        timer.join()
    errors = []
    timer.function = lambda: errors.append(pytest.raises(RuntimeError, timer.join))
    timer.start()
    timer.join()
    assert "current" in str(errors[0].value)


def test_many_threads_wait_for_one_timer(make):
    timer = make(FAR_OFF_S, int)
    timer.start()
    threads = [threading.Thread(target=timer.join) for _ in range(10)]
    for thread in threads:
        thread.start()
    timer.cancel()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)


def test_inside_the_function_the_current_thread_is_sensible(make):
    def look():
        thread = threading.current_thread()
        seen.append((thread, thread in threading.enumerate(), timer.ident, timer.native_id, timer.is_alive()))

    seen = []
    timer = make(0, look)
    timer.name = "heartbeat"
    timer.daemon = True
    timer.start()
    timer.join()
    [(thread, listed, ident, native_id, alive)] = seen
    assert (thread.ident, thread.native_id) == (ident, native_id) == (timer.ident, timer.native_id)
    assert thread.daemon
    assert alive
    assert listed


def test_the_thread_has_the_timers_name_for_so_long(make):
    seen = []

    def look():
        seen.append(threading.current_thread().name)
        timer.name = "renamed"
        seen.append(threading.current_thread().name)

    timer = make(0, look)
    timer.name = "heartbeat"
    timer.start()
    timer.join()
    assert seen == ["heartbeat", "renamed"]


def test_names_are_given_and_different(make):
    one, other = make(1, int), make(1, int)
    assert one.name == one.name
    assert one.name != other.name
    one.name = 5
    assert one.name == "5"


@pytest.mark.parametrize("daemon", [False, True])
def test_daemon_is_inherited_from_the_thread_that_makes_it(make, daemon):
    seen = []

    def nest():
        seen.append(threading.current_thread().daemon)
        seen.append(make(1, int).daemon)
        inner = make(0, lambda: seen.append(threading.current_thread().daemon))
        inner.start()
        inner.join()

    def start():
        timer = make(0, nest)
        seen.append(timer.daemon)
        timer.start()
        timer.join()

    thread = threading.Thread(target=start, daemon=daemon)
    thread.start()
    thread.join()
    assert seen == [daemon] * 4


def test_daemon_is_fixed_by_start(make):
    timer = make(FAR_OFF_S, int)
    timer.daemon = True
    timer.start()
    with pytest.raises(RuntimeError, match="active"):
        timer.daemon = False


def test_repr_says_what_it_is(make):
    timer = make(0, int)
    timer.name = "heartbeat"
    timer.daemon = True
    assert repr(timer) == "<Timer(heartbeat, initial daemon)>"
    timer.start()
    timer.join()
    assert repr(timer) == f"<Timer(heartbeat, stopped daemon {timer.ident})>"


@pytest.mark.parametrize("kind", [ValueError, Odd, KeyboardInterrupt])
def test_an_exception_goes_to_the_excepthook(make, hook, kind):
    error = kind("on purpose")
    timer = make(0, fail, [error])
    timer.start()
    timer.join()
    [args] = hook
    assert (args.exc_type, args.exc_value, args.thread) == (kind, error, timer)
    assert args.exc_traceback is error.__traceback__
    assert not timer.finished.is_set()  # as with the standard one
    hook.clear()


def test_a_function_that_cannot_be_called(make, hook):
    timer = make(0, None)
    timer.start()
    timer.join()
    assert [args.exc_type for args in hook] == [TypeError]
    hook.clear()


@pytest.fixture
def standard_hook(monkeypatch):
    """Not pytest's."""
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)


def test_the_standard_excepthook_prints_the_timers_name(make, capsys, standard_hook):
    timer = make(0, fail, [ValueError("on purpose")])
    timer.name = "heartbeat"
    timer.start()
    timer.join()
    printed = capsys.readouterr().err
    assert "Exception in thread heartbeat:" in printed
    assert "ValueError: on purpose" in printed


def test_sys_exit_in_a_function_is_silent(make, capsys, standard_hook):
    timer = make(0, fail, [SystemExit(3)])
    timer.start()
    timer.join()
    assert capsys.readouterr().err == ""
