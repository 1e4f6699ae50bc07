"""max_pending: a full timer raises TimerFull and adds nothing."""

from array import array

import pytest

from hwheel import ManualTimer, TimerFull, TimerTask


def adds(timer):
    return (
        lambda: timer.add(TimerTask(5)),
        lambda: timer.add(TimerTask(0)),
        lambda: timer.call_later(1, print),
        lambda: timer.call_at(1, print),
        lambda: timer.call_every(1, print),
        lambda: timer.call_many(array("q", [1]), print),
    )


def test_full_timer_refuses_every_add():
    timer = ManualTimer(max_pending=3)
    for _ in range(3):
        timer.add(TimerTask(5))
    before = timer.stats(), timer.pending()
    for call in adds(timer):
        with pytest.raises(TimerFull, match="max_pending=3"):
            call()
        assert (timer.stats(), timer.pending()) == before
    assert timer.call_many(array("q"), print).pending == 0  # an empty batch always fits


@pytest.mark.parametrize("end", ["cancel", "expiry"])
def test_cancel_and_expiry_free_a_place(end):
    timer = ManualTimer(max_pending=2)
    first = timer.add(TimerTask(5))
    timer.add(TimerTask(500))
    if end == "cancel":
        first.cancel()
    else:
        timer.advance(0.005)
    third = timer.add(TimerTask(5))
    assert third.pending
    with pytest.raises(TimerFull):
        timer.add(TimerTask(5))


def test_expired_tasks_count_until_they_run():
    timer = ManualTimer(max_pending=1)
    timer.add(TimerTask(0))
    with pytest.raises(TimerFull):
        timer.add(TimerTask(0))


def test_call_many_is_all_or_nothing(ran):
    timer = ManualTimer(max_pending=5)
    timer.add(TimerTask(1000))
    with pytest.raises(TimerFull):
        timer.call_many(array("q", [1, 2, 3, 4, 5]), ran.extend)
    assert (len(timer), timer.stats().added, timer.stats().levels) == (1, 1, ManualTimer().stats().levels + 1)
    timer.advance(0.01)
    assert ran == []
    batch = timer.call_many(array("q", [1, 2, 3, 4]), ran.extend)
    assert len(timer) == 5
    assert batch.cancel([3]) == 1
    timer.call_many(array("q", [9]), ran.extend)
    timer.advance(0.01)
    assert ran == [0, 1, 2, 0]


def test_reschedule_needs_no_room():
    timer = ManualTimer(max_pending=1)
    task = timer.add(TimerTask(5))
    assert task.reschedule(0.5)
    assert task.reschedule(0)


def test_periodic_task_keeps_its_place_while_it_runs(ran):
    timer = ManualTimer(max_pending=2)

    def fill():
        ran.append("ran")
        with pytest.raises(TimerFull):
            timer.call_many(array("q", [10**6, 10**6]), print)
        if len(ran) == 1:
            timer.call_later(3600, print)
        with pytest.raises(TimerFull):
            timer.call_later(3600, print)

    task = timer.call_every(0.1, fill)
    timer.advance(0.35)
    assert ran == ["ran"] * 3
    assert task.pending and len(timer) == 2
    timer.close()


def test_periodic_task_cancelled_in_its_run_frees_its_place(ran):
    timer = ManualTimer(max_pending=1)

    def last_run():
        ran.append("ran")
        assert task.cancel()
        timer.call_later(3600, print)

    task = timer.call_every(0.1, last_run)
    timer.advance(1)
    assert ran == ["ran"] and len(timer) == 1
    with pytest.raises(TimerFull):
        timer.call_later(1, print)
    timer.close()


def test_default_has_no_limit():
    timer = ManualTimer()
    timer.call_many(array("q", range(1, 100_001)), print)
    assert len(timer) == 100_000
