"""asyncio's debug mode on a loop on the wheel."""

import asyncio
import contextlib
import logging
import threading

import pytest

from hwheel.asyncio import EventLoop, wheel_loop


@pytest.fixture
def debug_loop():
    loop = EventLoop()
    loop.set_debug(True)
    yield loop
    loop.close()
    loop.set_exception_handler(None)
    for name in ("_wheel_timers", "call_at", "call_later"):
        del vars(loop)[name]


def nothing():
    pass


async def coroutine_function():
    pass


def test_a_slow_callback_is_reported(debug_loop, caplog):
    # By a clock that only this callback moves: a machine that is busy makes nothing else slow.
    now = debug_loop.time()
    debug_loop.time = lambda: now

    def slow_one():
        nonlocal now
        now += 0.02

    debug_loop.slow_callback_duration = 0.01
    debug_loop.call_later(0.001, slow_one)
    debug_loop.call_later(0.002, nothing)
    now += 0.01
    with caplog.at_level(logging.WARNING, logger="asyncio"):
        for _ in range(3):
            debug_loop.call_soon(debug_loop.stop)
            debug_loop.run_forever()
    slow = [message for message in caplog.messages if "slow_one" in message]
    assert len(slow) == 1
    assert slow[0].startswith("Executing <TimerHandle when=")
    assert slow[0].endswith(" took 0.020 seconds")
    assert not any("nothing" in message for message in caplog.messages)


def test_a_coroutine_is_no_callback(debug_loop):
    for call in (debug_loop.call_later, debug_loop.call_at):
        with pytest.raises(TypeError, match="coroutines cannot be used"):
            call(10**9, coroutine_function)
        with pytest.raises(TypeError, match="a callable object was expected"):
            call(10**9, "no function")
    assert len(debug_loop._wheel_timers) == 0


def test_another_thread_is_refused(debug_loop):
    refused = []

    def call():
        try:
            debug_loop.call_later(10, nothing)
        except RuntimeError as error:
            refused.append(str(error))

    def run():
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        debug_loop.stop()

    debug_loop.call_soon(run)
    debug_loop.run_forever()
    assert len(refused) == 1
    assert refused[0].startswith("Non-thread-safe operation invoked")
    call()  # the loop does not run: nobody is disturbed
    assert len(refused) == 1


def test_a_handle_knows_where_it_was_made(debug_loop):
    class Own(EventLoop):
        def call_at(self, when, callback, *args, context=None):
            return super().call_at(when, callback, *args, context=context)

    own = Own()
    own.set_debug(True)
    for loop, name in ((debug_loop, "test_a_handle_knows_where_it_was_made"), (own, "call_at")):
        handle = loop.call_later(10, nothing)
        assert handle._source_traceback[-1].name == name
        assert f" nothing() at {__file__}:" in repr(handle)
        assert f" created at {__file__}:" in repr(handle)
        handle.cancel()
        assert repr(handle).startswith("<TimerHandle cancelled when=")
        assert "nothing()" in repr(handle)
    own.close()


def test_an_exception_is_reported_with_the_place_of_the_call(debug_loop):
    reported = []
    debug_loop.set_exception_handler(lambda loop, context: reported.append(context))
    debug_loop.call_later(0.001, divmod, 1, 0)
    debug_loop.call_later(0.005, debug_loop.stop)
    debug_loop.run_forever()
    (context,) = reported
    assert set(context) == {"message", "exception", "handle", "source_traceback"}
    assert context["source_traceback"][-1].filename == __file__


def test_debug_mode_may_come_and_go(debug_loop):
    ran = []
    debug_loop.call_later(0.001, ran.append, 1)
    debug_loop.set_debug(False)
    debug_loop.call_later(10**9, coroutine_function).cancel()
    debug_loop.call_later(0.002, ran.append, 2)
    debug_loop.set_debug(True)
    debug_loop.call_later(0.005, debug_loop.stop)
    debug_loop.run_forever()
    assert ran == [1, 2]


def test_a_loop_may_be_made_in_debug_mode():
    """By its own __init__(), which need not call set_debug()."""

    class MadeInDebugMode(asyncio.SelectorEventLoop):
        def __init__(self):
            super().__init__()
            self._debug = True

    with contextlib.closing(wheel_loop(MadeInDebugMode)()) as loop, pytest.raises(TypeError, match="coroutines cannot"):
        loop.call_later(10**9, coroutine_function)


def test_asyncio_run_in_debug_mode():
    from hwheel.asyncio import run

    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 0.005)
        return asyncio.get_running_loop().get_debug()

    assert run(main(), debug=True) is True
