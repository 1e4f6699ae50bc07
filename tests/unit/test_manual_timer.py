"""ManualTimer: callbacks run inside advance(), as if time flowed."""

import threading
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from hwheel import ManualTimer, SystemTimer, TimerClosed, TimerTask


def now_ms(timer):
    return round(timer.time() * 1000)


def test_time_moves_only_with_advance():
    timer = ManualTimer(start_ms=1500)
    assert timer.time() == 1.5
    timer.advance(0.25)
    assert timer.time() == 1.75
    timer.advance(0)
    assert timer.time() == 1.75


def test_time_inside_a_callback_is_its_tick(ran):
    timer = ManualTimer()
    for delay_ms in (7, 3, 1000, 3, 450):
        timer.add(TimerTask(delay_ms, lambda: ran.append(now_ms(timer))))
    timer.advance(0.5)
    assert ran == [3, 3, 7, 450]
    assert now_ms(timer) == 500
    timer.advance(0.5)
    assert ran == [3, 3, 7, 450, 1000]


def test_expired_tasks_run_in_the_next_advance(ran):
    timer = ManualTimer(start_ms=100)
    timer.add(TimerTask(0, lambda: ran.append(("now", now_ms(timer)))))
    timer.add(TimerTask(-50, lambda: ran.append(("before", now_ms(timer)))))
    timer.add(TimerTask(5, lambda: ran.append(("later", now_ms(timer)))))
    assert ran == []
    timer.advance(0.01)
    assert ran == [("now", 100), ("before", 100), ("later", 105)]


def test_delays_inside_an_overdue_callback_count_from_its_time(ran):
    timer = ManualTimer()
    timer.add(TimerTask(0, lambda: timer.add(TimerTask(2, lambda: ran.append(now_ms(timer))))))
    timer.add(TimerTask(5, lambda: ran.append(now_ms(timer))))
    timer.advance(0.01)
    assert ran == [2, 5]


def test_tasks_added_by_callbacks_run_in_the_same_advance(ran):
    timer = ManualTimer()

    def step(left):
        ran.append(now_ms(timer))
        if left:
            timer.add(TimerTask(10, step, left - 1))

    timer.add(TimerTask(10, step, 5))
    timer.add(TimerTask(25, ran.append, "between"))
    timer.advance(0.045)
    assert ran == [10, 20, "between", 30, 40]
    timer.advance(0.1)
    assert ran[5:] == [50, 60]


def test_task_added_for_the_current_tick_runs_last_in_it(ran):
    timer = ManualTimer()

    def first():
        ran.append("first")
        timer.add(TimerTask(0, ran.append, "added"))

    timer.add(TimerTask(5, first))
    timer.add(TimerTask(5, ran.append, "second"))
    timer.add(TimerTask(6, ran.append, "next tick"))
    timer.advance(0.01)
    assert ran == ["first", "second", "added", "next tick"]


def test_callback_can_cancel_a_later_task_of_its_tick(ran):
    timer = ManualTimer()
    timer.add(TimerTask(5, lambda: ran.append(victim.cancel())))
    victim = timer.add(TimerTask(5, ran.append, "victim"))
    timer.advance(0.005)
    assert ran == [True]
    assert timer.stats()[:3] == (2, 1, 1)


def test_nested_advance_is_an_error(ran):
    timer = ManualTimer(on_error=lambda task, error: ran.append(type(error)))
    timer.add(TimerTask(5, timer.advance, 1))
    timer.add(TimerTask(6, lambda: ran.append(now_ms(timer))))
    timer.advance(0.01)
    assert ran == [RuntimeError, 6]
    assert now_ms(timer) == 10


def test_concurrent_advance_is_an_error(ran):
    def another():
        try:
            timer.advance(0.001)
        except RuntimeError as error:
            ran.append(str(error))

    def callback():
        thread = threading.Thread(target=another)
        thread.start()
        thread.join()

    timer = ManualTimer()
    timer.add(TimerTask(5, callback))
    timer.advance(0.01)
    assert len(ran) == 1
    assert "advance" in ran[0]
    assert now_ms(timer) == 10


def test_exception_goes_to_on_error_and_advance_continues(ran):
    timer = ManualTimer(on_error=lambda task, error: ran.append((task is failing, type(error))))
    failing = timer.add(TimerTask(5, lambda: 1 // 0))
    timer.add(TimerTask(5, ran.append, "goes on"))
    timer.advance(0.005)
    assert ran == [(True, ZeroDivisionError), "goes on"]
    assert failing.expired
    assert timer.stats()[:3] == (2, 2, 0)


def test_on_error_none_reports_to_threading_excepthook(ran, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda args: ran.append((args.exc_type, args.thread)))
    timer = ManualTimer(on_error=None)
    timer.add(TimerTask(5, lambda: 1 // 0))
    timer.advance(0.005)
    assert ran == [(ZeroDivisionError, threading.current_thread())]


@pytest.mark.parametrize(
    ("never_early", "runs"),
    [
        (True, [(1, 20), (19, 20), (20, 20), (21, 40), (40, 40)]),
        (False, [(1, 0), (19, 0), (20, 20), (21, 20), (40, 40)]),
    ],
)
def test_coarse_ticks_round_up_if_never_early_and_down_otherwise(never_early, runs, ran):
    timer = ManualTimer(tick_ms=20, never_early=never_early)
    for delay_ms in (1, 19, 20, 21, 40):
        timer.add(TimerTask(delay_ms, lambda delay_ms: ran.append((delay_ms, now_ms(timer))), delay_ms))
    for advanced_ms in (0, 19, 20, 39, 40):
        timer.advance_to(advanced_ms / 1000)
        assert ran == [run for run in runs if run[1] <= advanced_ms]


@pytest.mark.parametrize("delay", [0.0101, 0.010001, 0.011])
def test_fraction_of_a_millisecond_rounds_up(delay, ran):
    timer = ManualTimer()
    timer.call_later(delay, ran.append, 1)
    timer.advance(0.01)
    assert ran == []
    timer.advance(0.001)
    assert ran == [1]


def test_call_at_takes_a_time_of_the_timers_clock(ran):
    timer = ManualTimer(start_ms=60_000)
    timer.call_at(60.005, ran.append, "later")
    timer.call_at(1, ran.append, "over")
    timer.advance(0)
    assert ran == ["over"]
    timer.advance(0.004)
    assert ran == ["over"]
    timer.advance(0.001)
    assert ran == ["over", "later"]


def test_pending_lists_tasks_in_run_order(ran):
    timer = ManualTimer(tick_ms=20, wheel_size=3)
    delays_ms = [500, 0, 41, 60, 5000, 45, -1, 1, 500]
    tasks = [timer.add(TimerTask(delay_ms, ran.append, place)) for place, delay_ms in enumerate(delays_ms)]
    in_order = [tasks.index(task) for task in timer.pending()]
    assert in_order == [1, 6, 7, 2, 3, 5, 0, 8, 4]
    timer.advance(5)
    assert ran == in_order


def test_empty_ticks_cost_no_cascade():
    timer = ManualTimer()
    timer.add(TimerTask(10**9, print)).cancel()
    timer.advance((10**6) / 1000)
    assert timer.stats().cascaded == 0


def test_empty_timer_is_true():
    assert len(ManualTimer()) == 0
    assert ManualTimer()


# --- close ---------------------------------------------------------------------------------------------------------


def test_close_returns_pending_tasks_in_order(ran):
    timer = ManualTimer()
    tasks = [timer.add(TimerTask(delay_ms, ran.append, delay_ms)) for delay_ms in (500, 0, 7, 3, 7)]
    tasks[2].cancel()
    returned = timer.close()
    assert returned == [tasks[1], tasks[3], tasks[4], tasks[0]]
    assert all(task.cancelled for task in returned)
    assert [task.args for task in returned] == [(0,), (3,), (7,), (500,)]
    assert ran == []
    stats = timer.stats()
    assert stats.added == stats.expired + stats.cancelled + stats.pending + len(returned)
    for task in returned:
        task.run()
    assert ran == [0, 3, 7, 500]


def test_close_is_idempotent():
    timer = ManualTimer()
    timer.add(TimerTask(5))
    assert not timer.closed
    assert len(timer.close()) == 1
    assert timer.closed
    assert timer.close() == []
    assert timer.close(run_pending=True) == []


def test_close_with_run_pending_runs_all_tasks_in_order(ran):
    timer = ManualTimer()
    for delay_ms in (500, 0, 7, 3):
        timer.add(TimerTask(delay_ms, lambda delay_ms: ran.append((delay_ms, timer.time())), delay_ms))
    assert timer.close(run_pending=True) == []
    assert ran == [(0, 0.0), (3, 0.0), (7, 0.0), (500, 0.0)]
    assert timer.stats()[:3] == (4, 4, 0)


def test_callback_run_by_close_cannot_add(ran):
    timer = ManualTimer(on_error=lambda task, error: ran.append(type(error)))
    timer.add(TimerTask(5, lambda: timer.call_later(1, ran.append, "never")))
    timer.close(run_pending=True)
    assert ran == [TimerClosed]


def test_callback_can_close_its_timer(ran):
    timer = ManualTimer()
    timer.add(TimerTask(5, lambda: ran.append([task.args for task in timer.close()])))
    timer.add(TimerTask(5, ran.append, "same tick"))
    timer.add(TimerTask(9, ran.append, "later"))
    timer.advance(0.01)
    assert ran == [[("same tick",), ("later",)]]
    assert timer.closed


def test_with_block_closes_the_timer():
    with ManualTimer() as timer:
        task = timer.add(TimerTask(5))
    assert timer.closed
    assert task.cancelled


@pytest.mark.parametrize("start_s", [0, 2**20, 2**21, 2_926_131, 4 * 10**6, 16_777_216, 9 * 10**9, 10**12])
def test_float_seconds_are_exact_to_the_millisecond(start_s):
    timer = ManualTimer(start_ms=start_s * 1000 + 111)
    for k in range(1, 2000):
        before_ms = round(timer.time() * 1000)
        task = timer.call_at(timer.time() + k / 1000, int)
        assert task.deadline_ms == before_ms + k
        timer.advance_to(timer.time() + k / 1000)
        assert round(timer.time() * 1000) == before_ms + k


def test_integer_seconds_are_exact():
    for seconds in (9_007_199_254_740_977, np.int64(9_007_199_254_740_977), np.array(9_007_199_254_740_977)):
        timer = ManualTimer()
        timer.advance(seconds)
        assert timer.call_later(0, int).deadline_ms == 9_007_199_254_740_977_000


@pytest.mark.parametrize("value", [np.True_, np.array(True), np.array("5"), np.complex128(1 + 2j), 1j])
def test_non_numbers_of_numpy_are_not_seconds(value):
    timer = ManualTimer()
    with pytest.raises(TypeError, match="must be a number of seconds"):
        timer.call_later(value, print)
    assert len(timer) == 0


def test_close_timeout_takes_any_real_number():
    with pytest.raises(ValueError, match="NaN"):
        ManualTimer().close(timeout=float("nan"))
    for timeout in (0, 0.5, float("inf"), Fraction(1, 2), Decimal("0.5"), np.float32(0.5), np.int64(1)):
        with SystemTimer() as timer:
            timer.call_later(100, print)
            assert len(timer.close(timeout=timeout)) == 1


# --- next_deadline ----------------------------------------------------------------------------------------------------


def test_next_deadline_of_a_near_task():
    timer = ManualTimer()
    assert timer.next_deadline is None
    first = timer.call_later(0.25, int)
    timer.call_later(0.3, int)
    assert timer.next_deadline == 0.25
    first.cancel()
    assert timer.next_deadline == 0.3
    timer.advance(0.3)
    assert timer.next_deadline is None


def test_next_deadline_is_never_after_a_far_task():
    timer = ManualTimer(wheel_size=20)
    timer.call_later(7.777, int)
    while len(timer):
        assert timer.time() <= timer.next_deadline <= 7.777
        timer.advance_to(timer.next_deadline)
    assert timer.time() == 7.777


def test_next_deadline_of_expired_tasks_is_now():
    timer = ManualTimer()
    timer.advance(5)
    timer.call_later(0, int)
    assert timer.next_deadline == 5
    timer.call_many(memoryview(b"\0" * 16).cast("q"), print)
    assert timer.next_deadline == 5


def test_next_deadline_of_a_closed_or_uninitialized_timer(hand_clock):
    with SystemTimer(clock=hand_clock) as timer:
        timer.call_later(100, int)
    assert timer.next_deadline is None
    with pytest.raises(RuntimeError, match="not been set up"):
        print(SystemTimer.__new__(SystemTimer).next_deadline)
