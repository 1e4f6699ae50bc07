"""Threads that use the same object concurrently, in parallel on a CPython without a GIL."""

import asyncio
import gc
import time
from array import array

import pytest

import hwheel.asyncio
from hwheel import DelayQueue, ManualTimer, TimerTask, TimingWheel
from sampling import search_seconds
from threads import run_concurrently


def for_a_while(work):
    """Return a function that repeats work() for half a second."""

    def repeat():
        give_up = time.monotonic() + search_seconds(0.5)
        while time.monotonic() < give_up:
            work()

    return repeat


@pytest.mark.usefixtures("many_switches")
def test_reading_a_task_while_it_is_cancelled():
    """One thread clears callback and arguments while others read them: a reader sees all of them or none."""
    timer = ManualTimer()
    current = [TimerTask(1, print)]

    def replace():
        task = timer.add(TimerTask(10, lambda: None, object(), [], key=object()))
        current[0] = task
        assert task.cancel()
        assert (task.callback, task.args, task.kwargs) == (None, None, None)

    def look():
        task = current[0]
        args, kwargs = task.args, task.kwargs
        assert args in (None, ()) or len(args) == 2
        assert kwargs in (None, {}) or [*kwargs] == ["key"]
        repr(task), task.callback, task.deadline_ms

    def move():
        current[0].reschedule(0.02)

    run_concurrently(for_a_while(replace), for_a_while(look), for_a_while(look), for_a_while(move))
    timer.close()


@pytest.mark.usefixtures("many_switches")
def test_reading_a_batch_while_it_is_cancelled_and_closed():
    for _ in range(20):
        timer, returned = ManualTimer(), []
        batch = timer.call_many(array("q", range(1, 2001)), lambda indices: None)
        cancelled = []

        def cancel(first, batch=batch, cancelled=cancelled):
            for index in range(first, 2000, 100):
                cancelled.append(batch.cancel([index]))

        def look(batch=batch):
            for _ in range(200):
                found = batch.indices()
                assert len(found) <= 2000
                assert batch.callback is None or callable(batch.callback)
                assert 0 <= batch.pending <= 2000

        def close(timer=timer, returned=returned):
            returned.extend(timer.close())

        run_concurrently(lambda: cancel(0), lambda: cancel(50), look, close)
        left = sum(len(one.indices()) for one in returned)
        assert left + sum(cancelled) == 2000


def test_overflow_wheel_is_the_same_object_in_all_threads():
    for _ in range(50):
        wheel, views = TimingWheel(1, 2), []
        wheel.add(TimerTask(0), 3)
        run_concurrently(*[lambda: views.append(wheel.overflow_wheel)] * 3)
        assert len({id(view) for view in views}) == 1
        wheel.poll(100)


@pytest.mark.usefixtures("many_switches")
def test_queue_delivers_each_item_once(make_timer):
    timer = make_timer()
    queue = DelayQueue(timer=timer, maxsize=50)
    count, got, keys = 500, [], []

    def put(first):
        for number in range(count):
            keys.append(queue.put((first, number), number % 3 / 1000))

    def get():
        while (item := queue.get()) is not None:
            got.append(item)

    def look():
        for key in keys[-20:]:
            item = key.item  # a second read may return None
            assert item is None or len(item) == 2
            repr(key), key.pending, key.deadline, queue.peek(), len(queue)

    def move():
        for key in keys[-20:]:
            queue.reset(key, 0.001)

    def put_all():
        run_concurrently(lambda: put(0), lambda: put(1), for_a_while(move))
        for _ in range(2):
            queue.put(None, 0.01)

    run_concurrently(put_all, get, get, for_a_while(look))
    assert sorted(got) == sorted((first, number) for first in range(2) for number in range(count))


def test_event_loops_run_in_several_threads_during_garbage_collection():
    """The collector traverses each loop's timers while the loop's thread is stopped."""

    def run():
        loop = hwheel.asyncio.new_event_loop()
        ran = []

        async def main():
            for _ in range(5):
                handles = [loop.call_later(at % 7 / 1000, ran.append, at) for at in range(200)]
                for handle in handles[::2]:
                    handle.cancel()
                await asyncio.sleep(0.01)

        for _ in range(3):
            loop.call_later(1000, print)
            loop.run_until_complete(main())
        loop.close()
        assert len(ran) == 3 * 5 * 100

    run_concurrently(run, run, run, for_a_while(gc.collect))


@pytest.mark.usefixtures("many_switches")
def test_reading_the_purgatory_while_operations_are_added_and_completed(make_timer):
    from hwheel.purgatory import DelayedOperation, DelayedOperationPurgatory

    class Operation(DelayedOperation):
        def __init__(self):
            super().__init__(10_000)
            self.done = 0

        def try_complete(self):
            return False

        def on_complete(self):
            self.done += 1

        def on_expiration(self):
            pass

    purgatory = DelayedOperationPurgatory("shared", make_timer(), purge_interval=10)
    added = []

    def add():
        operation = Operation()
        purgatory.try_complete_else_watch(operation, [len(added) % 5, "all"])
        added.append(operation)

    def complete():
        for operation in added[-10:]:
            operation.force_complete()

    def look():
        purgatory.check_and_complete("all")
        repr(purgatory), purgatory.purge()

    run_concurrently(for_a_while(add), for_a_while(complete), for_a_while(look))
    for operation in added:
        operation.force_complete()
    assert all(operation.done == 1 for operation in added)
    purgatory.close()
