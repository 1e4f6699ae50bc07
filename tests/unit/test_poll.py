"""TimingWheel.poll: what is due, once, and no clock that moves for nothing."""

from hwheel import TimerTask, TimingWheel


def added(wheel, expiration_ms):
    task = TimerTask(0)
    assert wheel.add(task, expiration_ms)
    return task


def test_a_poll_with_nothing_due_moves_no_clock():
    wheel = TimingWheel(start_ms=1000)
    assert wheel.poll(5000) == []
    assert wheel.current_time_ms == 1000
    task = added(wheel, 1500)
    assert wheel.poll(1199) == []  # its bucket on level 3 is due at 1200
    assert [level.current_time_ms for level in wheel.snapshot().levels] == [1000, 1000, 800]
    assert task.pending


def test_a_poll_moves_the_clocks_to_the_last_bucket_that_it_took_and_not_to_now():
    wheel = TimingWheel()
    tasks = [added(wheel, 5), added(wheel, 450)]
    assert wheel.poll(430) == tasks[:1]
    assert [level.current_time_ms for level in wheel.snapshot().levels] == [400, 400, 400]


def test_a_poll_of_an_earlier_time_takes_nothing_and_no_clock_goes_back():
    wheel = TimingWheel()
    first, second = added(wheel, 5), added(wheel, 15)
    assert wheel.poll(10) == [first]
    for earlier_ms in (4, 0, -1, -(2**63)):
        assert wheel.poll(earlier_ms) == []
        assert wheel.current_time_ms == 5
    assert wheel.poll(15) == [second]


def test_each_task_is_returned_once():
    wheel = TimingWheel()
    task = added(wheel, 5)
    assert wheel.poll(5) == [task]
    assert wheel.poll(5) == []
    assert wheel.poll(10**6) == []


def test_tasks_that_were_cancelled_are_not_returned_and_their_bucket_is_not_waited_for():
    wheel = TimingWheel()
    early, late = added(wheel, 5), added(wheel, 700)
    assert early.cancel()
    assert wheel.next_expiration_ms == 400
    assert late.cancel()
    assert wheel.next_expiration_ms is None
    assert wheel.poll(1000) == []
    assert wheel.current_time_ms == 0
