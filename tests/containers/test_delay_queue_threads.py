"""hwheel.DelayQueue with threads that wait, at a fork, and under Ctrl-C."""

import _thread
import queue
import random
import signal
import threading
import time

import pytest

from containers import take_due
from hwheel import DelayQueue, ManualTimer, SystemTimer
from hwheel.types import ShutDown
from invariants import check_invariants
from waiting import eventually


def waiting(call):
    """Run call() in a thread; return the thread and a list that receives the result or the error."""
    answers = []

    def run():
        try:
            answers.append(call())
        except BaseException as error:
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, answers


@pytest.mark.parametrize("how", ["put now", "put soon", "reset", "shutdown", "at once"])
def test_waiting_get_is_woken_by_a_change(timer, how):
    q = DelayQueue(timer=timer)
    key = q.put("far", 3600)
    thread, answers = waiting(q.get)
    eventually(lambda: len(timer) == 1)
    if how == "put now":
        q.put("a", 0)
    elif how == "put soon":
        q.put("a", 1)
        timer.advance(1)
    elif how == "reset":
        q.reset(key, 0)
    elif how == "shutdown":
        q.shutdown()
        q.remove(key)
    else:
        q.shutdown(immediate=True)
    thread.join(30)
    assert not thread.is_alive()
    if "shut" in how or how == "at once":
        assert isinstance(answers[0], ShutDown)
    else:
        assert answers == ["far" if how == "reset" else "a"]


def test_waiting_put_is_woken_by_every_method_that_makes_room(timer):
    for make_room in [lambda q, key: q.remove(key), lambda q, key: q.drain(), lambda q, key: q.get_nowait()]:
        q = DelayQueue(1, timer=timer)
        key = q.put("a", 0)
        thread, answers = waiting(lambda q=q: q.put("b", 0))
        thread.join(0.02)
        assert thread.is_alive()
        make_room(q, key)
        thread.join(30)
        assert answers[0].item == "b" and take_due(q) == ["b"]
    q = DelayQueue(1, timer=timer)
    q.put("a", 1)
    thread, answers = waiting(lambda: q.put("b", 0))
    thread.join(0.02)
    q.shutdown()
    thread.join(30)
    assert isinstance(answers[0], ShutDown) and q.drain() == ["a"]


def test_consumers_are_served_in_turn(timer):
    """Each consumer comes back at once and holds the GIL. Without an order, one of them takes nearly all items."""
    q, got = DelayQueue(timer=timer), [0] * 8

    def consume(number):
        while q.get() is not None:
            got[number] += 1

    threads = [threading.Thread(target=consume, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    q.put("far", 3600)
    for number in range(8):  # one after another gets an item and waits again, so all of them have come
        eventually(lambda number=number: sum(got) == number)
        q.put(number)
    for i in range(4000):
        q.put(i, 1)
    timer.advance(1)
    eventually(lambda: sum(got) == 4008)
    for _ in threads:
        q.put(None)
    for thread in threads:
        thread.join(60)
    assert min(got) > 250, got


def test_waiters_are_called_in_order_and_newcomers_do_not_overtake_them(timer):
    class Waiter:
        def __init__(self, name):
            self.name = name

        def release(self):
            called.append(self.name)

    called = []
    q, [a, b, c, newcomer] = DelayQueue(timer=timer), map(Waiter, "abcn")
    for waiter in a, b, c:
        assert q._get_or_wait(waiter) is waiter
    q.put(1)
    q.put(2)
    assert called == ["a"]  # 2 waits for the end of the wave
    assert q._get_or_wait(newcomer) is newcomer and called == ["a"]
    assert q._get_or_wait(a, True) == 1 and called == ["a", "b"]
    assert q._get_or_wait(a) is a
    q.put(3)
    assert q.get_nowait() == 2  # does not wait, so it does not queue up either
    q._give_up(b, 0)
    assert called == ["a", "b", "c"] and q.get_nowait() == 3
    assert q._get_or_wait(c, True) is c  # its item is gone, so it is the first again
    for item in 4, 5, 6:
        q.put(item)
    assert [q._get_or_wait(c, True), q._get_or_wait(newcomer, True), q._get_or_wait(a, True)] == [4, 5, 6]
    assert called == ["a", "b", "c", "c", "n", "a"]


def test_after_shutdown_one_waiter_gets_the_last_item_and_the_others_an_error():
    with SystemTimer() as timer:
        q = DelayQueue(timer=timer)
        q.put("a", 0.3)
        threads, answers = zip(*[waiting(q.get) for _ in range(3)], strict=True)
        q.shutdown()
        for thread in threads:
            thread.join(60)
        assert sorted(type(answer).__name__ for [answer] in answers) == ["ShutDown", "ShutDown", "str"]


def test_full_timer_still_wakes_a_waiter():
    timer = ManualTimer(max_pending=1)
    timer.call_later(1000, int)
    q = DelayQueue(timer=timer)
    q.put("a", 5)
    thread, answers = waiting(q.get)
    eventually(lambda: len(timer) == 2)
    timer.advance(5)
    thread.join(30)
    assert answers == ["a"]


@pytest.mark.parametrize("use", [lambda q, key: q.put("c", 7200), lambda q, key: q.reset(key, 7200)])
def test_put_and_reset_notice_a_clock_set_forward(hand_clock, use):
    with SystemTimer(clock=hand_clock) as timer:
        q = DelayQueue(timer=timer)
        q.put("a", 3600)
        key = q.put("b", 5000)
        thread, answers = waiting(q.get)
        eventually(lambda: len(timer) == 1)
        hand_clock.ms += 3_600_000
        use(q, key)
        thread.join(30)
        assert answers == ["a"]


@pytest.mark.usefixtures("many_switches")
def test_each_item_reaches_one_of_many_threads_and_none_is_early(make_timer):
    timer = make_timer()
    q = DelayQueue(50, timer=timer)
    got, early, put = [], [], []

    def produce(number):
        chance = random.Random(number)
        for i in range(500):
            delay = chance.choice([0, 0.001, chance.uniform(0, 0.02)])
            due = timer.time() + delay
            key = q.put((number, i, due), delay)
            if chance.random() < 0.2:
                q.reset(key, delay)
            if chance.random() < 0.1:
                try:
                    got.append(q.remove(key))
                except KeyError:
                    pass

    def consume():
        while True:
            try:
                item = q.get(timeout=random.choice([None, 0.001, 5]))
            except queue.Empty:
                continue
            except ShutDown:
                return
            if timer.time() < item[2] - 1e-6:
                early.append(item)
            got.append(item)

    producers = [threading.Thread(target=produce, args=(number,)) for number in range(3)]
    consumers = [threading.Thread(target=consume) for _ in range(3)]
    for thread in producers + consumers:
        thread.start()
    for thread in producers:
        thread.join(100)
    q.shutdown()
    for thread in consumers:
        thread.join(100)
        assert not thread.is_alive()
    assert sorted(item[:2] for item in got) == sorted((number, i) for number in range(3) for i in range(500))
    assert early == [] and put == []
    check_invariants(q)


@pytest.mark.parametrize("fork", ["drop", "keep"])
def test_forked_child_has_the_items_if_the_timer_keeps_tasks(ends_well, fork):
    ends_well(
        f"""
from hwheel import DelayQueue
timer = SystemTimer(fork={fork!r})
q = DelayQueue(timer=timer)
q.put("parent's", 0.3)
waiter = threading.Thread(target=q.get)
waiter.start()
eventually(lambda: len(timer) == 1)

def child():
    begin = timer.time()
    q.put("child's", 0.5)
    got = [q.get()]
    if {fork!r} == "keep":
        assert got == ["parent's"]
        got = [q.get()]
    assert got == ["child's"] and timer.time() - begin >= 0.5 and len(q) == 0
    timer.close()

in_child(child)
waiter.join(60)
assert not waiter.is_alive()
timer.close()
"""
    )


def test_join_waits_for_task_done_of_each_item(timer):
    q = DelayQueue(timer=timer)
    q.join()
    removed = q.put("removed", 5)
    q.put("a")
    thread, answers = waiting(q.join)
    assert q.get() == "a"
    q.remove(removed)
    thread.join(0.05)
    assert thread.is_alive()
    q.task_done()
    thread.join(30)
    assert answers == [None]
    with pytest.raises(ValueError, match="more often"):
        q.task_done()


@pytest.mark.parametrize("end", [lambda q: q.drain(), lambda q: q.shutdown(immediate=True)])
def test_items_that_are_dropped_are_done(timer, end):
    q = DelayQueue(timer=timer)
    q.put("a")
    q.put("b", 5)
    thread, answers = waiting(q.join)
    thread.join(0.02)
    end(q)
    thread.join(30)
    assert answers == [None]


def test_with_block_shuts_the_queue_down(timer):
    with DelayQueue(timer=timer) as q:
        q.put("a")
    with pytest.raises(ShutDown):
        q.put("b")
    assert q.get() == "a"
    with pytest.raises(ShutDown):
        q.get()


def test_ctrl_c_in_a_wait_loses_no_item_and_no_wake_up(ends_well):
    ends_well(
        """
from hwheel import DelayQueue
timer = ManualTimer()
q = DelayQueue(1, timer=timer)
main = threading.main_thread().ident
for _ in range(5):
    try:
        threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        q.get()
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError
q.put("a", 0)
for wait in [lambda: q.put("b", 0), q.join, lambda: q.put("b", 0)]:
    try:
        threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        wait()
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError
assert q.drain() == ["a"]
"""
    )


def test_ctrl_c_during_a_wake_up_loses_neither_item_nor_wake_up(timer):
    """Waking a coroutine runs Python code, in which a signal handler may raise."""

    class Waiter:
        calls = woken = 0

        def release(self):
            self.calls += 1
            if self.calls == 1:
                raise KeyboardInterrupt
            self.woken += 1

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        q, waiter = DelayQueue(timer=timer), Waiter()
        assert q._get_or_wait(waiter) is waiter
        with pytest.raises(KeyboardInterrupt):
            q.put_nowait("a", 0)
            time.sleep(10)  # the signal may arrive after put_nowait()
        assert waiter.woken == 1 and q.drain() == ["a"]
    finally:
        signal.signal(signal.SIGINT, usual)


@pytest.mark.parametrize("timeout", [None, 60])
def test_ctrl_c_between_wake_up_and_return_loses_no_item(timer, timeout):
    """The woken thread may wait for the GIL. interrupt_main() wakes no thread, but put() does."""
    q = DelayQueue(timer=timer)
    q.put("later", 1000)  # so that the timer has a task once a thread waits

    def interrupt_and_put():
        eventually(lambda: len(timer) == 1)
        _thread.interrupt_main()
        q.put("a", 0)

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    other = threading.Thread(target=interrupt_and_put)
    try:
        other.start()
        with pytest.raises(KeyboardInterrupt):
            q.get(timeout=timeout)
    finally:
        other.join()
        signal.signal(signal.SIGINT, usual)
    assert q.drain() == ["a", "later"]
