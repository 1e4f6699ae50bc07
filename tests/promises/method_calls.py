"""Calls every method of one class, with odd arguments, on objects in every state. test_states.py runs this program.

    python method_calls.py                      Print the name, number of states, and number of methods of each class.
    python method_calls.py NAME CALLS SEED      Call each method CALLS times in each state, and once without arguments.

Every result and every exception is fine, except SystemError, by which CPython reports C code that broke its rules. A
crash fails, a hang fails after PATIENCE_S with a traceback, and so does a broken invariant after a public method in a
debug build. The output names each call before it is made. The last line says how many calls were made.
"""

import contextlib
import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import traceback
import warnings
from array import array

import hwheel
import hwheel_core
from hwheel_core import _core
from object_states import LoopStub, bare, busy, classes, ignore, states_of

PATIENCE_S = 15
# These methods wait for work. They return if their timer is stopped or their queue is shut down.
BLOCKING = {"_reap", "_await_work", "_advance_clock", "advance_clock", "drain", "get", "put", "join", "_wait"}
# fmt: off
OF_OBJECT = {"__init__", "__repr__", "__str__", "__hash__", "__eq__", "__lt__", "__le__", "__ne__", "__reduce__",
             "__reduce_ex__", "__sizeof__", "__dir__", "__format__"}
LEFT_OUT = {"__class__", "__class_getitem__", "__init_subclass__", "__subclasshook__", "__new__", "__dict__",
            "__weakref__", "__doc__", "__module__", "__annotations__", "__slotnames__"}
# fmt: on
NUMBERS = [0, 1, -1, 5, 2**31, 2**62, 2**63 - 1, -(2**63), 2**64, 0.5, -0.0, float("nan"), float("inf"), 1e300]
WITH_INVARIANTS = (
    hwheel_core.TimingWheel,
    hwheel_core.BaseTimer,
    hwheel_core.TimerGroup,
    hwheel_core.LoopTimers,
    hwheel_core.ContainerCore,
)


class Raises:
    """An argument whose special methods all raise."""

    def __index__(self):
        raise ZeroDivisionError

    __float__ = __len__ = __iter__ = __call__ = __hash__ = __bool__ = __index__


def odd_values(thing):
    timer = hwheel.ManualTimer()
    try:
        first_key = thing.peek() if isinstance(thing, hwheel_core.DelayQueueCore) else None
    except RuntimeError:
        first_key = None  # uninitialized
    # fmt: off
    return [
        *NUMBERS, None, True, "", "skip", "monotonic", b"", (), [], {}, [1, 2], {"a": 1}, object(), ignore, Raises(),
        Raises, hwheel.TimerTask, array("q"), array("q", [0, 1, -1, 2**62]), array("q", [1]), array("d", [1.0]),
        bytearray(16), memoryview(array("q", [3, 1, 2]))[::-1], thing, type(thing), hwheel.TimerTask(0),
        hwheel.TimerTask.__new__(hwheel.TimerTask), timer, timer.call_later(1.0, ignore), timer.call_every(1.0, ignore),
        timer.call_many(array("q", [1, 2]), ignore), bare(hwheel.SystemTimer), bare(hwheel.TimingWheel), ValueError(),
        bare(hwheel_core.OperationCore), bare(hwheel_core.TimerBatch), bare(hwheel_core.LoopHandle),
        bare(_core.HandedOut), bare(_core.DelayKey), hwheel.DelayQueue(timer=timer).put(1, 1), first_key,
    ]
    # fmt: on


def methods_of(cls):
    return [name for name in dir(cls) if name not in LEFT_OUT and (name in OF_OBJECT or not hasattr(object, name))]


def report(*words):
    """Print in one system call, so that the line survives a crash."""
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


def settle(thing):
    """Close an object before it is dropped. Most classes have no close(), and odd arguments may have broken it."""
    try:
        thing.close(timeout=0)
    except SystemError:
        raise
    except Exception:
        pass


class Caller:
    """Calls methods with random arguments, and counts the calls."""

    def __init__(self, cls, calls, seed):
        self.cls = cls
        self.calls = calls
        self.random = random.Random(seed)
        self.made = 0

    def arguments(self, thing):
        values = odd_values(thing)
        return [
            self.random.choice(NUMBERS if self.random.random() < 0.3 else values)
            for _ in range(self.random.randrange(5))
        ]

    def call(self, thing, name, state, *, without_arguments=False):
        values = [] if without_arguments else self.arguments(thing)
        # Only the types of most values, because a repr() would be a call of its own.
        report(state, name, *[v if type(v) in (int, float, str, bool) else type(v).__name__ for v in values])
        self.made += 1
        try:
            if name in BLOCKING and isinstance(thing, hwheel_core.BaseTimer):
                thing._stop(False)
            if name in BLOCKING and isinstance(thing, hwheel_core.DelayQueueCore):
                thing.shutdown(immediate=True)
                with contextlib.suppress(ValueError):
                    while True:
                        thing.task_done()
            if callable(getattr(type(thing), name)):
                getattr(thing, name)(*values)
            else:
                getattr(thing, name)
                if values:
                    setattr(thing, name, values[0])
                    delattr(thing, name)
        except SystemError:
            raise
        except Exception:  # the subject of the test: every exception is fine
            pass
        if hwheel_core.DEBUG and not name.startswith("_") and isinstance(thing, WITH_INVARIANTS):
            try:
                hwheel_core.debug_check(thing)
            except RuntimeError:
                assert "uninitialized" in state or "failed" in state, state

    def in_each_state(self):
        for state, create in states_of(self.cls).items():
            for name in methods_of(self.cls):
                for number in range(self.calls + 1):
                    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
                    thing = create()
                    assert type(thing) is self.cls, state
                    # Once without arguments, because a method without parameters refuses most random arguments.
                    self.call(thing, name, state, without_arguments=number == 0)
                    settle(thing)
                    del thing

    def in_a_child(self):
        """Fork once for each state, and call the methods in the child on objects that the parent created."""
        for state, create in states_of(self.cls).items():
            things = [(name, create()) for name in methods_of(self.cls) for _ in range(self.calls)]
            faulthandler.cancel_dump_traceback_later()  # its thread does not exist in the child
            pid = os.fork()
            if pid == 0:
                self._end_child(things, f"forked, {state}")
            _, status = os.waitpid(pid, 0)
            for _, thing in things:
                settle(thing)
            if status:
                report("the child ended with", status)
                sys.exit(1)
            self.made += len(things)

    def _end_child(self, things, state):
        code = 1
        try:
            while things:
                signal.alarm(PATIENCE_S)
                name, thing = things.pop()
                self.call(thing, name, state)
                settle(thing)
                del thing
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)

    def in_own_callback(self):
        """Call each method in a callback that the object itself runs."""
        prepare = IN_CALLBACK.get(self.cls.__name__)
        for name in methods_of(self.cls) if prepare else ():
            for _ in range(self.calls):
                faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
                called = []

                def callback(*_, name=name, called=called):
                    if not called:
                        called.append(name)
                        self.call(thing, name, "in its callback")

                thing, run = prepare(self.cls, callback)
                try:
                    run()
                except SystemError:
                    raise
                except Exception:  # the method may have closed or broken the timer that is running
                    pass
                settle(thing)
                assert called, f"the callback that calls {name} did not run"


# --- objects that run callbacks: each function returns the object, and a function that runs the callback -------------


def run_by_timer(timer, thing):
    return thing, lambda: timer.advance(0.005)


def timer_with_callback(cls, callback):
    timer = busy(cls())
    timer.call_later(0, callback)
    return run_by_timer(timer, timer)


def task_with_callback(cls, callback):
    timer = hwheel.ManualTimer()
    return run_by_timer(timer, timer.call_later(0, callback))


def periodic_task_with_callback(cls, callback):
    timer = hwheel.ManualTimer()
    return run_by_timer(timer, timer.call_every(0.002, callback))


def batch_with_callback(cls, callback):
    timer = hwheel.ManualTimer()
    return run_by_timer(timer, timer.call_many(array("q", [0, 0, 1, 2]), callback))


def group_with_callback(cls, callback):
    timer = hwheel.ManualTimer()
    group = timer.group()
    group.call_later(0, callback)
    return run_by_timer(timer, group)


def group_task_with_callback(cls, callback):
    timer = hwheel.ManualTimer()
    return run_by_timer(timer, timer.group().call_later(0, callback))


def dict_with_callback(cls, callback):
    timer = hwheel.ManualTimer()
    dictionary = cls(0.002, timer=timer, on_expire=callback)
    dictionary["key"] = 1
    return run_by_timer(timer, dictionary)


def loop_timers_with_callback(cls, callback):
    loop = LoopStub()
    timers = cls(loop) if cls.__name__ == "Timeouts" else cls(loop, loop)
    timers.call_later(0.001, callback)
    return timers, lambda: loop.fire(1.0)


def handle_with_callback(cls, callback):
    loop = LoopStub()
    handle = hwheel_core.LoopTimers(loop, loop).call_later(0.001, callback)
    return handle, lambda: loop.fire(1.0)


IN_CALLBACK = {
    "ManualTimer": timer_with_callback,
    "TimerTask": task_with_callback,
    "PeriodicTask": periodic_task_with_callback,
    "TimerBatch": batch_with_callback,
    "TimerGroup": group_with_callback,
    "GroupTask": group_task_with_callback,
    "ExpiringDict": dict_with_callback,
    "LoopTimers": loop_timers_with_callback,
    "WheelTimers": loop_timers_with_callback,
    "TimerHandle": handle_with_callback,
}


def main(name, calls, seed):
    threading.excepthook = ignore  # odd callbacks raise in a timer's thread
    warnings.simplefilter("ignore", DeprecationWarning)  # about forks in a process with threads
    caller = Caller(classes()[name], calls, seed)
    caller.in_each_state()
    if hasattr(os, "fork"):
        caller.in_a_child()
    caller.in_own_callback()
    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
    gc.collect()
    report("calls made:", caller.made)


if __name__ == "__main__":
    faulthandler.enable()
    if len(sys.argv) == 1:
        for name, cls in classes().items():
            print(name, len(states_of(cls)), len(methods_of(cls)), cls.__name__ in IN_CALLBACK)
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
