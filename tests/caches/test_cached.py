"""What cached() and cachedmethod() add to cachetools': coroutines, and single flight for them and for threads."""

import asyncio
import contextvars
import copy
import gc
import inspect
import pickle
import threading
import weakref

import pytest

from hwheel.cachetools import TTLCache, cached, cachedmethod, flights
from threads import errors_in_threads, run_concurrently
from waiting import eventually

THREADS = 8


class Work:
    """A function that counts its calls, and waits for `gate` in each."""

    def __init__(self, error=None):
        self.calls, self.gate, self.entered = 0, threading.Event(), threading.Event()
        self.errors = [error] if error else []

    def __call__(self, number):
        self.calls += 1
        self.entered.set()
        self.gate.wait(60)
        if self.errors:
            raise self.errors.pop()
        return [number]


# --- threads -------------------------------------------------------------------------------------------------------


def until_waiting(count):
    """Wait until so many threads wait for a flight."""
    eventually(lambda: len(flights._waits) == count)


@pytest.mark.parametrize("lock", [None, threading.Lock()])
def test_threads_with_one_key_run_the_function_once(lock):
    work, results = Work(), []
    function = cached(TTLCache(9, 60), single_flight=True, info=True, lock=lock)(work)
    callers = [lambda: results.append(function(1))] * THREADS
    run_concurrently(*callers, lambda: (until_waiting(THREADS - 1), work.gate.set()))
    assert work.calls == 1 and len(results) == THREADS
    assert all(result is results[0] for result in results)
    assert function.cache_info() == (THREADS - 1, 1, 9, 1)


def test_an_exception_reaches_all_threads_and_is_not_cached():
    work = Work(ValueError("no"))
    function = cached(TTLCache(9, 60), single_flight=True)(work)

    def release():
        until_waiting(THREADS - 1)
        work.gate.set()

    errors = errors_in_threads([lambda: function(1)] * THREADS + [release])
    assert len(errors) == THREADS and all(error is errors[0] for error in errors) and work.calls == 1
    assert function(1) == [1] and work.calls == 2


def test_after_an_interrupt_another_thread_runs_the_function():
    work, results = Work(KeyboardInterrupt()), []
    function = cached({}, single_flight=True)(work)

    def release():
        until_waiting(THREADS - 1)
        work.gate.set()

    errors = errors_in_threads([lambda: results.append(function(1))] * THREADS + [release])
    assert [type(error) for error in errors] == [KeyboardInterrupt]
    assert results == [[1]] * (THREADS - 1) and work.calls == 2


def test_a_recursive_call_with_the_same_key_does_not_wait_for_itself():
    depth = []

    @cached({}, single_flight=True)
    def function(number):
        depth.append(number)
        return number if len(depth) > 3 else function(number)

    assert function(7) == 7 and depth == [7] * 4


def test_threads_whose_calls_need_each_other_do_not_wait_for_ever():
    both = threading.Barrier(2)
    results = []

    @cached({}, single_flight=True)
    def function(number):
        if threading.current_thread() not in begun:
            begun.add(threading.current_thread())
            both.wait(60)
            return number, function(1 - number)
        return number

    begun = set()
    run_concurrently(*[lambda number=number: results.append(function(number)) for number in (0, 1)])
    assert both.broken is False and len(results) == 2
    for result in results:
        assert result[0] in (0, 1) and result[1] in (1 - result[0], (1 - result[0], result[0]))
    assert not flights._waits


def test_values_too_large_for_the_cache_are_shared_but_not_kept():
    work = Work()
    work.gate.set()
    function = cached(TTLCache(1, 60, getsizeof=lambda value: 2), single_flight=True)(work)
    assert function(1) == function(1) == [1] and work.calls == 2


def test_a_child_of_a_fork_does_not_wait_for_a_flight_of_its_parent(ends_well):
    ends_well(
        """
from hwheel.cachetools import TTLCache, cached
entered, gate = threading.Event(), threading.Event()

@cached(TTLCache(9, 60), single_flight=True)
def function(number):
    entered.set()
    gate.wait(60)
    return number

thread = threading.Thread(target=function, args=(1,))
thread.start()
entered.wait(60)

def child():
    gate.set()
    assert function(1) == 1

in_child(child)
gate.set()
thread.join()
"""
    )


def test_a_condition_cannot_be_combined_with_single_flight():
    async def coroutine_function():
        pass

    for decorate in (cached({}, condition=threading.Condition(), single_flight=True),):
        with pytest.raises(TypeError, match="single flight"):
            decorate(len)
    with pytest.raises(TypeError, match="single flight"):
        cached({}, condition=threading.Condition())(coroutine_function)
    with pytest.raises(TypeError, match="single flight"):
        cachedmethod(lambda self: {}, condition=lambda self: None)(coroutine_function)


def test_a_method_has_single_flight_for_each_instance():
    class Owner:
        def __init__(self):
            self.cache, self.work = {}, Work()

        @cachedmethod(lambda self: self.cache, single_flight=True, info=True)
        def method(self, number):
            return self.work(number)

    one, other = Owner(), Owner()
    other.work.gate.set()
    run_concurrently(
        *[lambda: one.method(1)] * 4, lambda: (one.work.entered.wait(60), other.method(1), one.work.gate.set())
    )
    assert (one.work.calls, other.work.calls) == (1, 1)
    assert sum(one.method.cache_info()[:2]) == 4 and one.method.cache_info().misses == 1


# --- coroutines ----------------------------------------------------------------------------------------------------


class AsyncWork:
    def __init__(self, error=None):
        self.calls, self.cancelled, self.gate = 0, 0, asyncio.Event()
        self.errors = [error] if error else []

    async def __call__(self, number):
        self.calls += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.errors:
            raise self.errors.pop()
        return [number]


def cached_work(error=None, **options):
    """Return an AsyncWork and a cached coroutine function that calls it."""
    work = AsyncWork(error)

    @cached(TTLCache(9, 60), info=True, **options)
    async def function(number):
        """Do the work."""
        return await work(number)

    return work, function


async def tasks_that_wait(function, count):
    tasks = [asyncio.create_task(function(1)) for _ in range(count)]
    await asyncio.sleep(0.01)
    return tasks


def test_tasks_with_one_key_run_the_function_once():
    async def main():
        work, function = cached_work()
        tasks = await tasks_that_wait(function, 5)
        work.gate.set()
        results = [*await asyncio.gather(*tasks), await function(1), await function(2)]
        assert results == [[1]] * 6 + [[2]] and work.calls == 2
        assert function.cache_info() == (5, 2, 9, 2)
        function.cache_clear()
        assert function.cache_info() == (0, 0, 9, 0) and len(function.cache) == 0

    asyncio.run(main())


def test_an_exception_reaches_all_tasks_and_is_not_cached():
    async def main():
        work, function = cached_work(ValueError("no"))
        tasks = await tasks_that_wait(function, 5)
        work.gate.set()
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(error is errors[0] for error in errors) and isinstance(errors[0], ValueError)
        assert work.calls == 1 and await function(1) == [1] and work.calls == 2

    asyncio.run(main())


async def awaited(coroutine):
    return await coroutine


async def gathered(coroutine):
    return (await asyncio.gather(coroutine))[0]


@pytest.mark.parametrize("call", [awaited, gathered, asyncio.create_task])
def test_a_coroutine_that_awaits_its_own_key_does_not_wait_for_itself(call):
    depth = []

    @cached({})
    async def function(number):
        depth.append(number)
        return number if len(depth) > 3 else await call(function(number))

    @cached({})
    async def other(number):
        return await call(mutual(number))

    @cached({})
    async def mutual(number):
        depth.append(number)
        return number if len(depth) > 8 else await call(other(number))

    async def main():
        async with asyncio.timeout(60):
            assert await function(7) == 7 and depth == [7] * 4
            assert await mutual(8) == 8

    asyncio.run(main())


def test_endless_recursion_of_a_coroutine_raises_an_error():
    @cached({})
    async def function(number):
        return await function(number)

    async def main():
        async with asyncio.timeout(60):
            await function(7)

    with pytest.raises(RecursionError):
        asyncio.run(main())


def test_calls_of_two_tasks_that_need_each_other_do_not_wait_for_ever():
    begun = []

    @cached({})
    async def function(number):
        begun.append(number)
        await asyncio.sleep(0.01)
        return number if len(begun) > 2 else await function(1 - number)

    async def main():
        async with asyncio.timeout(60):
            return await asyncio.gather(function(0), function(1), function(0))

    assert len({*asyncio.run(main())}) == 1 and len(begun) == 3


def test_calls_that_need_many_others_find_their_results():
    @cached({})
    async def fibonacci(number):
        return number if number < 2 else sum(await asyncio.gather(fibonacci(number - 1), fibonacci(number - 2)))

    assert asyncio.run(fibonacci(80)) == 23_416_728_348_467_685


@pytest.mark.parametrize("which", [[0], [1], [0, 1, 2, 3]])
def test_cancelled_callers_do_not_cancel_the_others(which):
    async def main():
        work, function = cached_work()
        tasks = await tasks_that_wait(function, 5)
        for index in which:
            tasks[index].cancel()
        await asyncio.sleep(0.01)
        work.gate.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for index, result in enumerate(results):
            assert isinstance(result, asyncio.CancelledError) if index in which else result == [1]
        assert (work.calls, work.cancelled) == (1, 0)

    asyncio.run(main())


def test_the_last_cancelled_caller_cancels_the_call_and_the_next_one_starts_again():
    async def main():
        work, function = cached_work()
        tasks = await tasks_that_wait(function, 3)
        for task in tasks:
            task.cancel()
        assert all(
            isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*tasks, return_exceptions=True)
        )
        work.gate.set()
        assert await function(1) == [1]
        assert (work.calls, work.cancelled) == (2, 1)
        assert not any("_fly" in str(task) for task in asyncio.all_tasks())

    asyncio.run(main())


def test_each_loop_has_flights_of_its_own_and_all_share_the_cache():
    entered = threading.Barrier(2)
    calls = []

    @cached(TTLCache(9, 60))
    async def function(number):
        calls.append(number)
        await asyncio.to_thread(entered.wait)
        return number

    run_concurrently(*[lambda: asyncio.run(function(1))] * 2)
    assert calls == [1, 1] and asyncio.run(function(1)) == 1 and calls == [1, 1]


def test_calls_of_a_loop_that_is_closed_while_they_run_are_freed_without_an_error(monkeypatch):
    errors = []
    monkeypatch.setattr("sys.unraisablehook", errors.append)

    @cached({})
    async def function(number):
        await asyncio.sleep(3600)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)  # "Task was destroyed but it is pending"
    tasks = [loop.create_task(function(1)) for _ in range(3)]
    loop.run_until_complete(asyncio.sleep(0.01))
    ends = [*map(weakref.ref, [loop, *tasks])]
    loop.close()
    del loop, tasks
    gc.collect()
    assert [end() for end in ends] == [None] * len(ends) and not errors


def test_a_cached_coroutine_function_is_still_a_coroutine_function():
    _, function = cached_work(lock=threading.Lock())
    assert inspect.iscoroutinefunction(function)
    assert (function.__name__, function.__doc__) == ("function", "Do the work.")
    assert function.cache_key(1) == (1,) and function.cache_lock and function.cache_condition is None
    assert not hasattr(cached({})(function), "cache_info")


def test_context_variables_of_the_first_caller_are_seen():
    variable = contextvars.ContextVar("variable")

    @cached({})
    async def function():
        return variable.get()

    async def main():
        variable.set("first")
        return await function()

    assert asyncio.run(main()) == "first"


class Owner:
    def __init__(self):
        self.cache, self.calls = TTLCache(9, 60), 0

    @cachedmethod(lambda self: self.cache, info=True)
    async def method(self, number):
        self.calls += 1
        await asyncio.sleep(0)
        return number


def test_a_coroutine_method():
    async def main():
        one, other = Owner(), Owner()
        assert await asyncio.gather(*[one.method(1) for _ in range(3)]) == [1, 1, 1]
        assert await Owner.method(one, 1) == 1 and await other.method(1) == 1
        assert (one.calls, other.calls) == (1, 1)
        assert one.method.cache_info() == (3, 1, 9, 1) and one.method.cache is one.cache
        assert asyncio.iscoroutinefunction(one.method) and repr(one.method).startswith("<cachedmethod <function")
        for twin in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert await twin.method(1) == 1 and twin.calls == 1 and twin.method.cache is twin.cache
            assert twin.method.cache_info().hits == 1
        with pytest.raises(AttributeError):
            one.method.nothing  # noqa: B018

    asyncio.run(main())


def test_an_error_of_the_key_or_the_cache_reaches_the_caller():
    async def main():
        _, function = cached_work()
        with pytest.raises(TypeError, match="unhashable"):
            await function([])

        class Broken(dict):
            def __setitem__(self, key, value):
                raise RuntimeError("full")

        @cached(Broken())
        async def other():
            return 1

        with pytest.raises(RuntimeError, match="full"):
            await other()

    asyncio.run(main())
