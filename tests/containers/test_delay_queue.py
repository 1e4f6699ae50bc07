"""A DelayQueue gives items when they are due, in order, and to nobody twice."""

import _thread
import queue
import random
import signal
import threading
import time
import weakref

import pytest

import hwheel_core
from containers import take_due
from hwheel import DelayQueue, ManualTimer, SystemTimer, TimerClosed
from hwheel.types import DelayKey, ShutDown
from waiting import eventually


def test_an_item_comes_out_when_it_is_due_and_not_before(timer):
    q = DelayQueue(timer=timer)
    q.put("a", 1)
    timer.advance(0.999)
    with pytest.raises(queue.Empty):
        q.get_nowait()
    timer.advance(0.001)
    assert q.get_nowait() == "a" and len(q) == 0 and q.empty()


def test_items_come_by_deadline_and_then_in_the_order_of_the_puts(timer):
    q = DelayQueue(timer=timer)
    for item, delay in [("c", 3), ("a", 1), ("a2", 1), ("far", 1000), ("b", 2), ("a3", 1)]:
        q.put(item, delay)
    timer.advance(5)
    q.put("now", 0)
    q.put("before now", -10)
    assert take_due(q) == ["a", "a2", "a3", "b", "c", "now", "before now"]
    timer.advance(1000)
    q.put("last", 0)
    assert take_due(q) == ["far", "last"]


def test_what_is_due_at_once_goes_behind_what_fell_due_and_nobody_has_looked_for(timer):
    q = DelayQueue(timer=timer)
    q.put("one", 0.5)
    q.put("two", 1)
    timer.advance(10)
    q.put("three", 0)
    assert q.drain() == ["one", "two", "three"]


def test_reset_moves_an_item_either_way_and_behind_its_new_time(timer):
    q = DelayQueue(timer=timer)
    a, b, c = q.put("a", 1), q.put("b", 5), q.put("c", 2)
    assert q.reset(a, 2) and q.reset(b, 1) is True
    assert (a.deadline, b.deadline) == (2, 1)
    timer.advance(2)
    assert take_due(q) == ["b", "c", "a"]
    assert q.reset(c, 1) is False and len(q) == 0


def test_reset_takes_back_what_is_due_but_was_not_taken(timer):
    q = DelayQueue(timer=timer)
    a, b = q.put("a", 1), q.put("b", 1)
    timer.advance(1)
    assert q.peek() is a
    assert q.reset(a, 1)
    assert take_due(q) == ["b"]
    timer.advance(1)
    assert take_due(q) == ["a"] and not b.pending


def test_remove_gives_the_item_due_or_not_and_once(timer):
    q = DelayQueue(timer=timer)
    a, b, c = q.put("a", 1), q.put("b", 1), q.put("c", 9)
    timer.advance(1)
    assert q.remove(b) == "b" and q.remove(c) == "c" and take_due(q) == ["a"]
    for key in [a, b, c]:
        assert (key.pending, key.item) == (False, None)
        with pytest.raises(KeyError):
            q.remove(key)
        assert q.reset(key, 1) is False


def test_remove_of_one_that_is_due_leaves_those_of_the_tick_before_and_after_it(timer):
    for removed in range(6):
        q = DelayQueue(timer=timer)
        keys = [q.put(number, 1 + number // 2) for number in range(6)]
        timer.advance(5)
        q.peek()  # all of it is found to be due
        assert q.remove(keys[removed]) == removed
        assert take_due(q) == [number for number in range(6) if number != removed]


def test_a_key_of_another_queue_is_none_of_this_one(timer):
    q, other = DelayQueue(timer=timer), DelayQueue(timer=timer)
    key = other.put("a", 1)
    with pytest.raises(KeyError):
        q.remove(key)
    assert q.reset(key, 5) is False and key.deadline == 1 and other.remove(key) == "a"
    for bad in [None, 5, "key"]:
        for use in [q.remove, lambda key: q.reset(key, 1)]:
            with pytest.raises(TypeError):
                use(bad)


def test_equal_items_have_keys_of_their_own(timer):
    q = DelayQueue(timer=timer)
    keys = [q.put("same", 1) for _ in range(3)]
    assert len({*keys}) == 3
    q.remove(keys[1])
    timer.advance(1)
    assert take_due(q) == ["same", "same"]


@pytest.mark.parametrize("seed", range(40))
def test_peek_names_what_comes_next_whatever_the_level(timer, seed):
    chance = random.Random(seed)
    q = DelayQueue(timer=timer)
    assert q.peek() is None
    for _ in range(60):
        for _ in range(chance.randrange(4)):
            q.put(object(), chance.choice([0, 0.001, 0.06, 0.064, 0.1, 4, 5, 300, 300, 1e6]))
        timer.advance(chance.choice([0, 0.03, 0.5, 4, 290]))
        key = q.peek()
        if key is not None and key.deadline <= timer.time():
            assert q.get_nowait() is not None and not key.pending
    while len(q):
        key = q.peek()
        item = key.item
        timer.advance(max(0, key.deadline - timer.time()))
        assert q.get_nowait() is item


def test_drain_takes_everything_in_order_and_the_queue_goes_on(timer):
    q = DelayQueue(timer=timer)
    keys = [q.put(delay, delay) for delay in [5, 1, 1e6, 3]]
    timer.advance(2)
    assert q.drain() == [1, 3, 5, 1e6] and len(q) == 0 and not any(key.pending for key in keys)
    assert q.drain() == []
    q.put("again", 1)
    timer.advance(1)
    assert take_due(q) == ["again"]


def test_a_full_queue_takes_no_more_until_something_left(timer):
    q = DelayQueue(2, timer=timer)
    first = q.put("a", 1)
    q.put("b", 1)
    assert q.full() and q.maxsize == 2 and q.qsize() == 2
    with pytest.raises(queue.Full):
        q.put_nowait("c", 1)
    with pytest.raises(queue.Full):
        q.put("c", 1, block=False)
    with pytest.raises(queue.Full):
        q.put("c", 1, timeout=0.01)
    assert q.reset(first, 2)  # no room needed
    q.remove(first)
    q.put("c", 1)
    assert q.drain() == ["b", "c"]


def test_shutdown_lets_what_is_there_come_at_its_time_and_then_says_so(timer):
    q = DelayQueue(timer=timer)
    q.put("a", 1)
    b = q.put("b", 2)
    q.shutdown()
    with pytest.raises(ShutDown):
        q.put("c", 1)
    with pytest.raises(queue.Empty):
        q.get_nowait()
    assert q.reset(b, 1)
    timer.advance(1)
    assert taken_until_shut(q) == ["a", "b"]
    with pytest.raises(ShutDown):
        q.get()
    q.shutdown()


def taken_until_shut(q):
    items = []
    while True:
        try:
            items.append(q.get_nowait())
        except ShutDown:
            return items


def test_an_immediate_shutdown_drops_what_is_there(timer):
    class Thing:
        pass

    q = DelayQueue(timer=timer)
    thing = Thing()
    end = weakref.ref(thing)
    key = q.put(thing, 1)
    del thing
    q.shutdown(immediate=True)
    assert end() is None and not key.pending and len(q) == 0
    with pytest.raises(ShutDown):
        q.get(timeout=5)


def test_ShutDown_is_the_standard_librarys_where_there_is_one():
    assert ShutDown is getattr(queue, "ShutDown", ShutDown) and issubclass(ShutDown, Exception)


BAD = [
    (float("nan"), ValueError),
    (float("inf"), ValueError),
    (True, TypeError),
    ("1", TypeError),
    (None, TypeError),
    (10**30, OverflowError),
    (2**63 // 1000, OverflowError),
]


@pytest.mark.parametrize(("delay", "error"), BAD)
def test_a_bad_delay_is_refused_and_changes_nothing(timer, delay, error):
    timer.advance(1)
    q = DelayQueue(timer=timer)
    key = q.put("a", 1)
    with pytest.raises(error):
        q.put("b", delay)
    with pytest.raises(error):
        q.reset(key, delay)
    assert len(q) == 1 and key.deadline == 2


@pytest.mark.parametrize("timeout", [-1, float("nan"), "1", True])
def test_a_bad_timeout_is_refused(timer, timeout):
    q = DelayQueue(timer=timer)
    with pytest.raises((ValueError, TypeError)):
        q.get(timeout=timeout)


@pytest.mark.parametrize(
    ("maxsize", "error"), [("5", TypeError), (True, TypeError), (2.5, TypeError), (2**70, OverflowError)]
)
def test_a_bad_maxsize_is_refused(timer, maxsize, error):
    with pytest.raises(error):
        DelayQueue(maxsize, timer=timer)


def test_an_infinite_timeout_is_none(timer):
    q = DelayQueue(timer=timer)
    q.put("a", 0)
    assert q.get(timeout=float("inf")) == "a"


def test_get_waits_in_real_time_for_its_timeout_alone(timer):
    q = DelayQueue(timer=timer)
    q.put("a", 3600)
    begin = time.monotonic()
    with pytest.raises(queue.Empty):
        q.get(timeout=0.05)
    assert time.monotonic() - begin >= 0.05


def waiting(call):
    """call() in a thread; and what it gave or raised."""
    answers = []

    def run():
        try:
            answers.append(call())
        except BaseException as error:
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, answers


def test_who_waits_is_woken_when_an_item_falls_due(timer):
    q = DelayQueue(timer=timer)
    q.put("a", 5)
    thread, answers = waiting(q.get)
    eventually(lambda: len(timer) == 1)  # the alarm
    timer.advance(4.999)
    assert thread.is_alive()
    timer.advance(0.001)
    thread.join(30)
    assert answers == ["a"]


@pytest.mark.parametrize("how", ["put now", "put soon", "reset", "shutdown", "at once"])
def test_who_waits_is_woken_by_what_changes_that(timer, how):
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


def test_who_waits_for_room_is_woken_by_whatever_makes_some(timer):
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


def test_after_a_shutdown_the_last_item_is_one_threads_and_the_others_are_told():
    with SystemTimer() as timer:
        q = DelayQueue(timer=timer)
        q.put("a", 0.3)
        threads, answers = zip(*[waiting(q.get) for _ in range(3)], strict=True)
        q.shutdown()
        for thread in threads:
            thread.join(60)
        assert sorted(type(answer).__name__ for [answer] in answers) == ["ShutDown", "ShutDown", "str"]


def test_without_anybody_waiting_the_timer_has_nothing_to_do(timer):
    q = DelayQueue(timer=timer)
    for i in range(1000):
        q.put(i, i)
    assert len(timer) == 0
    timer.advance(10_000)
    assert take_due(q) == [*range(1000)]


def test_a_closed_timer_takes_nothing_more_and_nobody_waits_for_it():
    timer = SystemTimer()
    q = DelayQueue(timer=timer)
    q.put("a", 0)
    key = q.put("b", 3600)
    timer.close()
    with pytest.raises(TimerClosed):
        q.put("c", 1)
    with pytest.raises(TimerClosed):
        q.reset(key, 1)
    assert q.get() == "a"
    with pytest.raises(TimerClosed):
        q.get()
    with pytest.raises(queue.Empty):
        q.get_nowait()
    assert q.drain() == ["b"]


def test_a_full_timer_wakes_who_waits():
    timer = ManualTimer(max_pending=1)
    timer.call_later(1000, int)
    q = DelayQueue(timer=timer)
    q.put("a", 5)
    thread, answers = waiting(q.get)
    eventually(lambda: len(timer) == 2)
    timer.advance(5)
    thread.join(30)
    assert answers == ["a"]


def test_a_clock_that_is_set_back_makes_nothing_early(hand_clock):
    with SystemTimer(clock=hand_clock, reaper=False) as timer:
        q = DelayQueue(timer=timer)
        q.put("a", 10)
        q.put("far", 10_000)
        hand_clock.ms += 10_000
        assert q.peek().item == "a"
        hand_clock.ms -= 100_000
        q.put("b", 1)
        assert take_due(q) == []
        hand_clock.ms += 1000
        assert take_due(q) == ["b"]
        hand_clock.ms += 99_000
        assert take_due(q) == ["a"] and len(q) == 1


def test_a_put_notices_that_a_clock_was_set_forward(hand_clock):
    with SystemTimer(clock=hand_clock) as timer:
        q = DelayQueue(timer=timer)
        q.put("a", 3600)
        thread, answers = waiting(q.get)
        eventually(lambda: len(timer) == 1)
        hand_clock.ms += 3_600_000
        q.put("b", 7200)
        thread.join(30)
        assert answers == ["a"]


def test_a_move_notices_that_a_clock_was_set_forward(hand_clock):
    with SystemTimer(clock=hand_clock) as timer:
        q = DelayQueue(timer=timer)
        q.put("a", 3600)
        moved = q.put("b", 5000)
        thread, answers = waiting(q.get)
        eventually(lambda: len(timer) == 1)
        hand_clock.ms += 3_600_000
        assert q.reset(moved, 7200)
        thread.join(30)
        assert answers == ["a"]


def test_without_a_timer_it_has_the_processs_own():
    q, other = DelayQueue(), DelayQueue()
    assert q.timer is other.timer and q.timer.name == "delaying"
    begin = time.monotonic()
    q.put("a", 0.05)
    assert q.get(timeout=60) == "a" and time.monotonic() - begin >= 0.05


def test_the_memory_of_an_item_is_given_back_with_it(timer):
    class Thing:
        pass

    q = DelayQueue(timer=timer)
    ends, keys = [], []
    for _ in range(5):
        thing = Thing()
        ends.append(weakref.ref(thing))
        keys.append(q.put(thing, 1))
        del thing
    q.remove(keys[0])
    assert ends[0]() is None
    timer.advance(1)
    q.get()
    assert ends[1]() is None
    del q
    assert [end() for end in ends] == [None] * 5 and [key.item for key in keys] == [None] * 5


def test_the_end_of_an_item_may_use_the_queue(timer):
    q = DelayQueue(timer=timer)

    class Ends:
        def __del__(self):
            q.put("from the end", 0)

    q.put(Ends(), 1)
    q.remove(q.peek())
    q.put(Ends(), 1)
    assert q.get() == "from the end" and len(q.drain()) == 1
    assert q.drain() == ["from the end"]


def test_a_key_is_made_by_put_alone_and_says_what_it_is(timer):
    q = DelayQueue(timer=timer)
    key = q.put("a", 1.5)
    with pytest.raises(TypeError):
        type(key)()
    assert repr(key) == "<DelayKey pending, deadline 1.5 s>" and repr(q) == "<DelayQueue, 1 item>" and bool(q)
    bare = type(key).__new__(type(key))
    assert (bare.item, bare.pending) == (None, False) and q.reset(bare, 1) is False
    with pytest.raises(KeyError):
        q.remove(bare)


def test_one_that_was_never_set_up_says_so():
    q = DelayQueue.__new__(DelayQueue)
    for call in [lambda: q.put("a", 1), q.get, q.peek, q.drain, lambda: len(q), q.shutdown, lambda: q.timer]:
        with pytest.raises(RuntimeError, match="has not been set up"):
            call()


@pytest.mark.usefixtures("many_switches")
def test_of_many_threads_each_item_reaches_one_and_none_is_early(make_timer):
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
    if hwheel_core.DEBUG:
        hwheel_core.debug_check(q)


@pytest.mark.parametrize("fork", ["drop", "keep"])
def test_a_forked_child_has_the_items_if_the_timer_keeps_them(run_script, fork):
    done = run_script(
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
    assert done == (0, "", "")


def test_a_ctrl_c_in_a_wait_leaves_nothing_behind_and_a_wake_up_is_passed_on(run_script):
    done = run_script(
        """
from hwheel import DelayQueue
timer = ManualTimer()
q = DelayQueue(1, timer=timer)
main = threading.main_thread().ident
for _ in range(5):
    threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    try:
        q.get()
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError
q.put("a", 0)
for _ in range(3):
    threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    try:
        q.put("b", 0)
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError
assert q.drain() == ["a"]

# Signals all the while; each item is got once.
signal.signal(signal.SIGINT, lambda *_: interrupted())
class Interrupt(KeyboardInterrupt):
    pass
def interrupted():
    if late:        # one that comes behind the put is none of its
        late.clear()
        raise Interrupt
got, stop, late = [], threading.Event(), []
def consume():
    while not stop.is_set():
        try:
            got.append(q.get(timeout=0.01))
        except Exception:
            pass
threads = [threading.Thread(target=consume) for _ in range(2)]
for thread in threads:
    thread.start()
def disturb():
    while not stop.is_set():
        time.sleep(0.002)
        if late:
            signal.pthread_kill(main, signal.SIGINT)
other = threading.Thread(target=disturb)
other.start()
for number in range(300):
    try:
        late.append(1)
        q.put(number, 0, timeout=5)
        late.clear()
    except Interrupt:
        pass
stop.set()
for thread in threads + [other]:
    thread.join()
got += q.drain()
assert len(got) == len(set(got)) and len(got) > 100, len(got)
"""
    )
    assert done == (0, "", "")


def test_an_interruption_in_the_middle_of_a_wake_up_loses_neither_the_item_nor_the_wake_up(timer):
    """To wake a coroutine is Python code, and a signal handler may raise in it."""

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
            time.sleep(10)  # it comes when put_nowait() is over
        assert waiter.woken == 1 and q.drain() == ["a"]
    finally:
        signal.signal(signal.SIGINT, usual)


@pytest.mark.parametrize("timeout", [None, 60])
def test_an_interruption_between_the_wake_up_and_the_turn_of_who_is_woken_loses_no_item(timer, timeout):
    """The thread that is woken has yet to get the GIL, say. An interrupt_main() wakes nobody: the put() does."""
    q = DelayQueue(timer=timer)
    q.put("later", 1000)  # so that the timer has a task as soon as somebody waits

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


def test_the_type_of_a_key_takes_the_type_of_its_item():
    assert repr(DelayKey[int]) == "hwheel.types.DelayKey[int]"


def test_a_key_knows_its_remaining_time(timer):
    q = DelayQueue(timer=timer)
    key = q.put("a", 1.5)
    timer.advance(1)
    assert key.remaining() == 0.5
    timer.advance(1)
    assert key.remaining() == 0.0 and key.pending
    q.reset(key, 2)
    assert key.remaining() == 2.0
    assert q.remove(key) == "a" and key.remaining() == 0.0
