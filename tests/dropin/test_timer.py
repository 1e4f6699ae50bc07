"""The behavior of threading.Timer, tested with the standard Timer and with hwheel's."""

import threading
import time

import pytest

import hwheel
import hwheel.threading

PATIENCE_S = 60
FAR_OFF_S = 1000


class Odd(BaseException):
    """An error that is no Exception."""


@pytest.fixture(params=[threading.Timer, hwheel.Timer], ids=["standard", "hwheel"])
def timer_class(request):
    return request.param


@pytest.fixture
def make(timer_class):
    """make(...): create a timer, which is cancelled at the end of the test."""
    made = []

    def make(*args, cls=timer_class, **kwargs):
        made.append(cls(*args, **kwargs))
        return made[-1]

    yield make
    while made:  # empty, because pytest still holds `make` when other fixtures search for leaks
        made.pop().cancel()


def fail(error):
    raise error


def run(timer):
    timer.start()
    timer.join(PATIENCE_S)
    assert not timer.is_alive()


def test_it_is_a_subclass_of_the_standard_timer():
    assert hwheel.Timer is hwheel.threading.Timer
    assert issubclass(hwheel.Timer, threading.Timer)


def test_it_calls_the_function_with_its_arguments_once(make):
    calls = []
    timer = make(interval=0.01, function=lambda *a, **k: calls.append((a, k)), args=[1, 2], kwargs={"three": 3})
    run(timer)
    assert timer.finished.is_set()
    timer.cancel()
    timer.cancel()
    assert calls == [((1, 2), {"three": 3})]


@pytest.mark.parametrize("interval", [0, -1, -0.5])
def test_an_interval_of_zero_or_less_runs_at_once_in_another_thread(make, interval):
    where = []
    run(make(interval, lambda: where.append(threading.get_ident())))
    assert where
    assert where != [threading.get_ident()]


def test_intervals_between_two_milliseconds_are_not_early(make):
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


def test_a_cancelled_timer_does_not_run(make):
    calls = []
    timer = make(0.05, calls.append, [1])
    finished = timer.finished
    assert isinstance(finished, threading.Event)
    timer.start()
    assert timer.is_alive() and not finished.is_set()
    timer.cancel()
    timer.join()
    assert not timer.is_alive()
    assert timer.finished is finished and finished.is_set()
    run(make(0.1, int))
    assert calls == []
    timer.cancel()


@pytest.mark.parametrize("interval", [0, FAR_OFF_S])
def test_cancel_before_start(make, interval):
    calls = []
    timer = make(interval, calls.append, [1])
    timer.cancel()
    assert timer.finished.is_set()
    run(timer)
    assert calls == []
    with pytest.raises(RuntimeError):
        timer.start()


def test_setting_the_finished_event_cancels_the_timer(make):
    calls = []
    timer = make(FAR_OFF_S, calls.append, [1])
    timer.start()
    timer.finished.set()
    timer.join()
    assert not timer.is_alive()
    assert calls == []


def test_finished_may_be_replaced(make):
    calls = []
    timer = make(0.5, calls.append, [1])
    timer.finished = threading.Event()
    timer.start()
    timer.finished.set()
    timer.join()
    assert calls == []


def test_attributes_can_change_until_the_timer_expires(make):
    calls = []
    timer = make(FAR_OFF_S, fail, [1])
    timer.interval = 0.05
    timer.start()
    timer.function = lambda *args, **kwargs: calls.append((args, kwargs))
    timer.args = (2,)
    timer.kwargs["x"] = 3
    timer.join()
    assert calls == [((2,), {"x": 3})]


def test_default_arguments_are_empty_and_not_shared(make):
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
    timer.cancel()  # too late
    assert timer.is_alive()
    gate.set()
    timer.join(PATIENCE_S)
    assert not timer.is_alive()


def test_join_before_start_and_in_the_function_is_an_error(make):
    timer = make(0, lambda: timer.join())
    with pytest.raises(RuntimeError, match="before it is started"):
        timer.join()
    errors = []
    timer.function = lambda: errors.append(pytest.raises(RuntimeError, timer.join))
    run(timer)
    assert "current" in str(errors[0].value)


def test_many_threads_join_one_timer(make):
    timer = make(FAR_OFF_S, int)
    timer.start()
    threads = [threading.Thread(target=timer.join) for _ in range(10)]
    for thread in threads:
        thread.start()
    timer.cancel()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)


def test_the_current_thread_inside_the_function(make):
    def look():
        thread = threading.current_thread()
        seen.append((thread, thread in threading.enumerate(), timer.ident, timer.native_id, timer.is_alive()))

    seen = []
    timer = make(0, look)
    timer.name = "heartbeat"
    timer.daemon = True
    run(timer)
    [(thread, listed, ident, native_id, alive)] = seen
    assert (thread.ident, thread.native_id) == (ident, native_id) == (timer.ident, timer.native_id)
    assert thread.daemon
    assert alive
    assert listed


def test_the_thread_has_the_name_of_the_timer(make):
    seen = []

    def look():
        seen.append(threading.current_thread().name)
        timer.name = "renamed"
        seen.append(threading.current_thread().name)

    timer = make(0, look)
    timer.name = "heartbeat"
    run(timer)
    assert seen == ["heartbeat", "renamed"]


def test_default_names_are_unique(make):
    one, other = make(1, int), make(1, int)
    assert one.name == one.name
    assert one.name != other.name
    one.name = 5
    assert one.name == "5"


@pytest.mark.parametrize("daemon", [False, True])
def test_daemon_is_inherited_from_the_creating_thread(make, daemon):
    seen = []

    def nest():
        seen.append(threading.current_thread().daemon)
        seen.append(make(1, int).daemon)
        run(make(0, lambda: seen.append(threading.current_thread().daemon)))

    def start():
        timer = make(0, nest)
        seen.append(timer.daemon)
        run(timer)

    thread = threading.Thread(target=start, daemon=daemon)
    thread.start()
    thread.join()
    assert seen == [daemon] * 4


def test_daemon_cannot_change_after_start(make):
    timer = make(FAR_OFF_S, int)
    timer.daemon = True
    timer.start()
    with pytest.raises(RuntimeError, match="active"):
        timer.daemon = False


def test_repr(make):
    timer = make(0, int)
    timer.name = "heartbeat"
    timer.daemon = True
    assert repr(timer) == "<Timer(heartbeat, initial daemon)>"
    run(timer)
    assert repr(timer) == f"<Timer(heartbeat, stopped daemon {timer.ident})>"


@pytest.mark.parametrize("kind", [ValueError, Odd, KeyboardInterrupt])
def test_an_exception_goes_to_the_excepthook(make, hook, kind):
    error = kind("on purpose")
    timer = make(0, fail, [error])
    run(timer)
    [args] = hook
    assert (args.exc_type, args.exc_value, args.thread) == (kind, error, timer)
    assert args.exc_traceback is error.__traceback__
    assert not timer.finished.is_set()
    hook.clear()


def test_a_function_that_is_not_callable(make, hook):
    run(make(0, None))
    assert [args.exc_type for args in hook] == [TypeError]
    hook.clear()


@pytest.fixture
def standard_hook(monkeypatch):
    """Replace pytest's hook."""
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)


def test_the_standard_excepthook_prints_the_timers_name(make, capsys, standard_hook):
    timer = make(0, fail, [ValueError("on purpose")])
    timer.name = "heartbeat"
    run(timer)
    printed = capsys.readouterr().err
    assert "Exception in thread heartbeat:" in printed
    assert "ValueError: on purpose" in printed


def test_sys_exit_in_a_function_is_silent(make, capsys, standard_hook):
    run(make(0, fail, [SystemExit(3)]))
    assert capsys.readouterr().err == ""
