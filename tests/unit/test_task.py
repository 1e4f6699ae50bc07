"""TimerTask: states, arguments, and adding it again."""

import pytest

from hwheel import ManualTimer, SystemTimer, TimerTask, TimingWheel


def states(task):
    return task.pending, task.expired, task.cancelled


PENDING, EXPIRED, CANCELLED = (True, False, False), (False, True, False), (False, False, True)


def nothing(*args, **kwargs):
    pass


def test_new_task_has_no_state_and_no_deadline():
    task = TimerTask(5, nothing)
    assert states(task) == (False, False, False)
    assert task.deadline_ms is None
    assert task.delay_ms == 5


def test_task_cancelled_before_add_does_not_run(ran):
    wheel, timer = TimingWheel(), ManualTimer()
    for_wheel, for_timer = TimerTask(5, ran.append, 1), TimerTask(5, ran.append, 2)
    assert for_wheel.cancel()
    assert for_timer.cancel()
    assert not for_wheel.cancel()
    assert (for_wheel.callback, for_wheel.args, for_wheel.kwargs) == (None, None, None)
    assert states(for_wheel) == CANCELLED
    assert not wheel.add(for_wheel, 5)
    assert timer.add(for_timer) is for_timer
    assert (len(wheel), len(timer), timer.stats().added) == (0, 0, 0)
    assert states(for_wheel) == states(for_timer) == CANCELLED
    assert wheel.poll(10) == []
    timer.advance(0.01)
    assert ran == []


@pytest.mark.parametrize("added_before", [False, True])
def test_adding_a_cancelled_task_changes_nothing(added_before):
    wheel, task = TimingWheel(), TimerTask(5)
    if added_before:
        assert wheel.add(task, 5)
    assert task.cancel()
    deadline_ms = task.deadline_ms
    assert not wheel.add(task, 900)
    assert task.deadline_ms == deadline_ms
    assert (deadline_ms is None) == (not added_before)


def test_arguments_are_visible_until_cancel():
    timer = ManualTimer()
    for arguments in [(), (1,), ((),), (None,), (1, 2), ({"a": 1},)]:
        for keywords in [{}, {"key": "value"}]:
            task = TimerTask(5, nothing, *arguments, **keywords)
            assert (task.callback, task.args, task.kwargs) == (nothing, arguments, keywords)
            timer.add(task)
            assert (task.callback, task.args, task.kwargs) == (nothing, arguments, keywords)
            task.cancel()
            assert (task.callback, task.args, task.kwargs) == (None, None, None)


def test_arguments_are_released_after_the_run(ran):
    timer = ManualTimer()
    task = timer.add(TimerTask(5, lambda *args, **kwargs: ran.append((args, kwargs)), 1, 2, key=3))
    timer.advance(0.005)
    assert ran == [((1, 2), {"key": 3})]
    assert (task.callback, task.args, task.kwargs) == (None, None, None)


def test_kwargs_is_a_copy(ran):
    timer = ManualTimer()
    task = timer.add(TimerTask(5, lambda **kwargs: ran.append(kwargs), key=1))
    task.kwargs["key"] = 2
    timer.advance(0.005)
    assert ran == [{"key": 1}]


def test_polled_task_runs_once(ran):
    wheel = TimingWheel()
    task = TimerTask(5, ran.append, "ran")
    wheel.add(task, 5)
    assert wheel.poll(5) == [task]
    assert states(task) == EXPIRED
    assert task.args == ("ran",)
    assert ran == []
    task.run()
    assert ran == ["ran"]
    assert task.callback is None
    with pytest.raises(RuntimeError, match="callback"):
        task.run()
    assert ran == ["ran"]


def test_task_without_callback_does_nothing():
    timer = ManualTimer()
    task = timer.add(TimerTask(5))
    timer.advance(0.005)
    assert states(task) == EXPIRED
    task.run()


class Counting(TimerTask):
    """A task with a run() of its own."""

    def __init__(self, delay_ms):
        super().__init__(delay_ms)
        self.runs = 0

    def run(self):
        self.runs += 1


def test_subclass_can_be_added_to_a_wheel_again():
    wheel, task = TimingWheel(), Counting(5)
    assert wheel.add(task, 5)
    assert wheel.poll(5) == [task]
    assert wheel.add(task, 900)
    assert wheel.poll(900) == [task]
    assert not wheel.add(task, 900)
    assert states(task) == EXPIRED


def test_pending_task_cannot_be_added(where):
    timer, wheel = ManualTimer(), TimingWheel()
    task, other = timer.add(TimerTask(5)), TimerTask(5)
    wheel.add(other, 5)
    timer.advance(0.001)
    with pytest.raises(ValueError, match="pending"):
        timer.add(task)
    with pytest.raises(ValueError, match="pending"):
        wheel.add(other, 9)
    assert (task.deadline_ms, other.deadline_ms) == (5, 5)
    assert where(wheel, other) == (1, 5, 5)
    assert (len(timer), timer.stats().added, len(wheel)) == (1, 1, 1)


@pytest.mark.parametrize("state", ["pending", "expired"])
def test_task_cannot_be_added_to_a_second_timer(state):
    first, second, wheel = ManualTimer(), ManualTimer(), TimingWheel()
    task = first.add(Counting(5))
    if state == "expired":
        first.advance(0.005)
    for call in (lambda: second.add(task), lambda: wheel.add(task, 9)):
        with pytest.raises(ValueError, match="another timer"):
            call()
    assert getattr(task, state)
    assert task.deadline_ms == 5
    assert (len(second), second.stats().added, len(wheel)) == (0, 0, 0)
    assert first.stats().added == 1


def test_task_refused_by_one_timer_can_go_to_another():
    closed, full, timer = ManualTimer(), ManualTimer(max_pending=1), ManualTimer()
    full.add(TimerTask(5))
    closed.close()
    task = TimerTask(5)
    for refusing in (closed, full):
        with pytest.raises(RuntimeError):
            refusing.add(task)
        assert states(task) == (False, False, False)
        assert task.deadline_ms is None
    assert timer.add(task).pending


def test_added_task_cannot_be_initialized_again():
    timer = ManualTimer()
    task = timer.add(TimerTask(5))
    with pytest.raises(ValueError, match="added"):
        task.__init__(7)
    assert (task.delay_ms, task.deadline_ms) == (5, 5)


@pytest.mark.parametrize(("delay_ms", "whole_ms"), [(1.0, 1), (1.2, 2), (0.001, 1), (-0.5, 0), (-1.5, -1)])
def test_float_delay_rounds_up(delay_ms, whole_ms):
    assert TimerTask(delay_ms).delay_ms == whole_ms


def test_delay_can_be_any_index():
    class Five:
        def __index__(self):
            return 5

    assert TimerTask(Five()).delay_ms == 5


def test_finalizer_of_old_arguments_can_use_the_task():
    timer = ManualTimer()
    ran = []

    class UsesIt:
        def __del__(self):
            timer.add(task)
            timer.advance(0.01)

    task = TimerTask(5, print, UsesIt(), key=1)
    task.__init__(5, ran.append, 7)
    assert ran == [7] and task.expired
    timer.close()


def test_failed_add_leaves_the_task_to_a_nested_add():
    # The clock makes the nested add.
    readings = []

    def clock():
        if not readings:
            return 1000
        reading = readings.pop(0)
        if reading is None:
            readings[:] = [2000, 2000]
            timer.add(task)
            raise OSError
        return reading

    timer = SystemTimer(clock=clock, reaper=False, executor="inline")
    timer.call_later(1, int)
    readings[:] = [2000] * 4
    timer.advance_clock(0)  # the wheel's clock is at 2000
    task = TimerTask(50)
    readings[:] = [None]
    with pytest.raises(OSError):
        timer.add(task)
    assert task.pending and task.deadline_ms == 2050
    assert task.cancel() is True
    timer.close()


def test_deadline_and_remaining_time_in_seconds():
    timer = ManualTimer()
    timer.advance(2)
    task = TimerTask(1500)
    assert (task.deadline, task.remaining()) == (None, 0.0)
    timer.add(task)
    assert (task.deadline, task.remaining()) == (3.5, 1.5)
    timer.advance(0.25)
    assert (task.deadline, task.remaining()) == (3.5, 1.25)
    task.reschedule(4)
    assert (task.deadline, task.remaining()) == (6.25, 4)
    timer.advance(4)
    assert (task.deadline, task.remaining()) == (6.25, 0.0)


def test_remaining_time_of_a_cancelled_task_is_zero():
    task = ManualTimer().call_later(5, print)
    task.cancel()
    assert (task.deadline, task.remaining()) == (5.0, 0.0)


def test_remaining_time_follows_a_callable_clock():
    now_ms = [0]
    with SystemTimer(clock=lambda: now_ms[0], executor="inline") as timer:
        task = timer.call_later(5, print)
        now_ms[0] = 4000
        assert task.remaining() == 1
        task.cancel()
    assert task.remaining() == 0.0


def test_remaining_time_of_every_kind_of_task():
    timer = ManualTimer()
    group = timer.group()
    for each in (timer, group):
        assert each.call_later(5, print, slack=0.001).remaining() == pytest.approx(5, abs=0.002)
        every = each.call_every(5, lambda: remaining.append(every.remaining()))
        assert (every.remaining(), every.deadline) == (5, timer.time() + 5)
        remaining = []
        timer.advance(6)
        assert (remaining, every.remaining()) == ([0.0], 4)
        every.cancel()
    wheel = TimingWheel()
    task = TimerTask(0)
    wheel.add(task, 10)
    assert (task.deadline, task.remaining()) == (0.01, 0.01)


def test_task_is_generic_over_its_result():
    assert TimerTask[int].__origin__ is TimerTask
    assert isinstance(ManualTimer().add(TimerTask[int](5, int)), TimerTask)


def test_callback_task_cannot_be_added_after_expiry(ran):
    timer, wheel = ManualTimer(), TimingWheel()
    task, other = timer.add(TimerTask(5, ran.append, 1)), TimerTask(5, ran.append, 2)
    wheel.add(other, 5)
    timer.advance(0.005)
    wheel.poll(5)
    before = timer.stats()
    for add in (lambda: timer.add(task), lambda: wheel.add(other, 900)):
        with pytest.raises(ValueError, match="expired"):
            add()
    assert (timer.stats(), len(wheel)) == (before, 0)
    assert states(task) == states(other) == EXPIRED
    assert (task.deadline_ms, other.deadline_ms) == (5, 5)
