"""Calls every method of one class, with odd arguments, on objects in every state of their life. Run by test_states.py.

    python states.py NAME CALLS SEED        NAME: a class of `classes()`; CALLS: how often each method, in each state

Any result and any exception will do, but for SystemError, which is CPython's word for C code that broke its rules. What
fails is a crash, a hang (the process is ended with a traceback after PATIENCE_S), or, in a debug build, an invariant
that does not hold any more after a public method. The call that is under way stands in the last line of the output.
"""

import contextlib
import faulthandler
import gc
import importlib
import os
import pkgutil
import random
import signal
import sys
import threading
import traceback
import warnings
from array import array

import hwheel
import hwheel_core
from hwheel.extras import MissingExtraError
from hwheel_core import _core

PATIENCE_S = 15
# They wait by design, until there is work, for ever if need be: on a timer, or a queue, that is to end they come back.
WAITS = {"_reap", "_await_work", "_advance_clock", "advance_clock", "drain", "get", "put", "_wait"}
# fmt: off
OF_OBJECT = {"__init__", "__repr__", "__str__", "__hash__", "__eq__", "__lt__", "__le__", "__ne__", "__reduce__",
             "__reduce_ex__", "__sizeof__", "__dir__", "__format__"}
LEFT_OUT = {"__class__", "__class_getitem__", "__init_subclass__", "__subclasshook__", "__new__", "__dict__",
            "__weakref__", "__doc__", "__module__", "__annotations__"}
# fmt: on


def classes():
    """name -> class: all of the core, and all of hwheel that are built on one of them."""
    for module in pkgutil.walk_packages(hwheel.__path__, "hwheel."):
        if not module.name.startswith(("hwheel.spark", "hwheel.cli", "hwheel.__main__", "hwheel.tune")):
            with contextlib.suppress(MissingExtraError):  # Twisted may be missing
                importlib.import_module(module.name)
    found = [cls for cls in vars(_core).values() if isinstance(cls, type) and is_compiled(cls)]
    found.append(type(a_periodic_task()))
    for cls in found:
        found += [sub for sub in cls.__subclasses__() if sub.__module__.startswith("hwheel") and sub not in found]
    named = {}
    for cls in found:
        named[cls.__name__ if cls.__name__ not in named else f"{cls.__module__}.{cls.__name__}"] = cls
    return named


def is_compiled(cls):
    heap_type = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
    return cls.__module__.startswith("hwheel") and not cls.__flags__ & heap_type


# --- objects in their states ---------------------------------------------------------------------------------------


class Loop:
    """As much of an event loop as a LoopTimers asks for."""

    now = 1.0

    def time(self):
        return self.now

    def call_at(self, when, callback, *args, context=None):
        return self

    call_later = call_at

    def cancel(self):
        pass


def ignore(*args):
    pass


def busy(timer):
    """A timer with something of every kind in it."""
    timer.call_later(1000.0, ignore, 1)
    timer.call_every(9e11, ignore)  # few runs, however far somebody advances
    timer.call_every(9e11, ignore, slack=9, jitter=9, max_lateness=9)
    timer.call_later(9.0, ignore, 1, slack=9, max_lateness=9)
    timer.call_at(-9.0, ignore, 1, max_lateness=1)
    timer.call_many(array("q", [10**6, 0, 2 * 10**6]), ignore)
    timer.add(hwheel.TimerTask(3 * 10**6, ignore, 1, 2, key=3))
    return timer


def a_periodic_task():
    return hwheel.ManualTimer().call_every(5.0, ignore)


def new_loop_timers():
    loop = Loop()
    timers = hwheel_core.LoopTimers(loop, loop.call_at, loop.call_later)
    for delay in (5.0, 0.001, 9999.0):
        timers.call_later(delay, ignore, delay)
    return timers


def close(thing):
    thing.close()
    return thing


def cancelled(task):
    task.cancel()
    return task


def expired(task):
    timer = hwheel.ManualTimer()
    timer.add(task)
    timer.advance(0.01)
    return task


def pending(task):
    THE_TIMER.add(task)
    return task


THE_TIMER = hwheel.ManualTimer("the one that tasks are pending in")


def grouped(timer, method="stats", *args):
    """A group with something of every kind in it, of a timer of which a method is called then."""
    group = timer.group()
    group.call_later(1.0, ignore, 1)
    group.call_at(5.0, ignore)
    group.call_every(9e11, ignore)
    getattr(timer, method)(*args)
    return group


def one_of_a_group(name, seconds=0.0):
    timer = hwheel.ManualTimer()
    group = timer.group()
    task = group.call_later(5.0, ignore, 1) if name == "GroupTask" else group.call_every(5.0, ignore)
    timer.advance(seconds)
    return task


def timers_batch(rest):
    timer = hwheel.ManualTimer()
    return rest(timer, timer.call_many(array("q", [5, 0, 7, 10**7, -1]), ignore))


def extended(batch):
    for delays_ms in ([7], [0, 10**7] * 50, [10**6]):
        batch.extend(array("q", delays_ms), ignore)
    return batch


def makers(name, cls):
    """state -> a function that makes an object in it; of a class nobody knows yet, one that was never set up."""
    make = {"never set up": lambda: cls.__new__(cls)}
    if name == "TimingWheel":

        def full():
            wheel = cls(1, 4)
            wheel.add(hwheel.TimerTask(3), 3)
            wheel.add(hwheel.TimerTask(300), 300)
            return wheel

        make |= {"set up": cls, "full": full, "a view": lambda: full().overflow_wheel}
    elif name == "ManualTimer":
        make |= {
            "set up": cls,
            "busy": lambda: busy(cls()),
            "closed": lambda: close(busy(cls())),
            "set up twice": lambda: failed_init(cls(), "again"),
            "init failed": lambda: failed_init(bare(cls), 5),
        }
    elif name == "SystemTimer":
        make |= {
            "set up": cls,
            "busy": lambda: busy(cls()),
            "closed": lambda: close(busy(cls())),
            "by hand": lambda: busy(cls(reaper=False)),
            "inline": lambda: busy(cls(executor="inline")),
            "of a callable": lambda: busy(cls(clock=lambda: 5, reaper=False)),
            "set up twice": lambda: failed_init(cls(), "again"),
            "init failed": lambda: failed_init(bare(cls), 5),
        }
    elif issubclass(cls, hwheel_core.OperationCore):
        make |= {"set up": lambda: cls(5), "cancelled": lambda: cancelled(cls(5))}
    elif cls is type(a_periodic_task()) and name == "PeriodicTask":
        make |= {"pending": a_periodic_task, "cancelled": lambda: cancelled(a_periodic_task())}
    elif issubclass(cls, hwheel.TimerTask) and name not in ("RecordedTask", "GroupTask", "GroupPeriodicTask"):
        make |= {
            "set up": lambda: cls(5, ignore),
            "pending": lambda: pending(cls(5, ignore, 1)),
            "cancelled": lambda: cancelled(cls(5, ignore, key=1)),
            "expired": lambda: expired(cls(5, ignore)),
            "init failed": lambda: failed_init(bare(cls), "5"),
            "set up twice": lambda: failed_init(cls(5, ignore, 1), 6, ignore, 2, 3),
            "on terms": lambda: THE_TIMER.call_later(5, ignore, 1, slack=1, max_lateness=1),
        }
    elif name == "TimerBatch":
        make |= {
            "pending": lambda: timers_batch(lambda timer, batch: batch),
            "cancelled": lambda: timers_batch(lambda timer, batch: cancelled(batch)),
            "returned": lambda: timers_batch(lambda timer, batch: timer.close()[0]),
            "extended": lambda: extended(THE_TIMER.call_many(array("q", [5, 10**7]), ignore)),
            "over": lambda: cancelled(extended(THE_TIMER.call_many(array("q"), ignore))),
        }
    elif name == "TimerGroup":
        make |= {
            "empty": lambda: hwheel.ManualTimer().group(),
            "full": lambda: grouped(hwheel.ManualTimer()),
            "closed": lambda: close(grouped(hwheel.ManualTimer())),
            "of a closed timer": lambda: grouped(hwheel.ManualTimer(), "close"),
            "expired": lambda: grouped(hwheel.ManualTimer(), "advance", 10.0),
        }
    elif name in ("GroupTask", "GroupPeriodicTask"):
        make |= {
            "pending": lambda: one_of_a_group(name),
            "cancelled": lambda: cancelled(one_of_a_group(name)),
            "expired": lambda: one_of_a_group(name, 6.0),
            "by hand": lambda: cls(5, ignore),
        }
    elif name == "LoopTimers":
        make |= {"set up": new_loop_timers, "closed": lambda: close(new_loop_timers())}
    elif name == "TimerHandle":
        make |= {
            "pending": lambda: new_loop_timers().call_later(1.0, ignore),
            "cancelled": lambda: cancelled(new_loop_timers().call_later(1.0, ignore)),
        }
    elif name == "HandedOut":
        make |= {
            "handed out": handed_out,
            "over": lambda: handed_out("finish"),
            "given up": lambda: handed_out("give_up"),
            "of a batch": lambda: handed_out(batch=True),
        }
    elif name == "PurgatoryCore":

        def empty():
            made = cls()
            made._start_empty()
            made.timer = hwheel.ManualTimer()
            return made

        make |= {"set up": empty}
    elif name == "ExpiringDict":
        make |= {
            "empty": lambda: cls(5, timer=hwheel.ManualTimer()),
            "full": lambda: filled(cls(5, timer=hwheel.ManualTimer(), maxsize=4, refresh=True, on_expire=ignore)),
            "expired": lambda: filled(cls(5, timer=hwheel.ManualTimer()), 5),
            "ringing": lambda: ringing(cls),
            "closed": lambda: close_timer(filled(cls(5, timer=hwheel.ManualTimer()))),
            "set up twice": lambda: failed_init(filled(cls(5, timer=hwheel.ManualTimer())), 7),
            "init failed": lambda: failed_init(bare(cls), "5"),
        }
    elif name == "DelayQueue":
        make |= {
            "empty": lambda: cls(timer=hwheel.ManualTimer()),
            "full": lambda: queued(cls(4, timer=hwheel.ManualTimer())),
            "due": lambda: queued(cls(timer=hwheel.ManualTimer()), 5000),
            "shut": lambda: shut(queued(cls(timer=hwheel.ManualTimer()))),
            "closed": lambda: close_timer(queued(cls(timer=hwheel.ManualTimer()))),
            "set up twice": lambda: failed_init(queued(cls(timer=hwheel.ManualTimer())), 7),
            "init failed": lambda: failed_init(bare(cls), "5"),
        }
    elif name == "DelayedOperationPurgatory":
        make |= {
            "set up": lambda: cls("purgatory", hwheel.ManualTimer()),
            "closed": lambda: close(cls("purgatory", hwheel.ManualTimer())),
        }
    return make


def filled(dictionary, seconds=0.0):
    for key in (1, "a", (2,), None):
        dictionary.set(key, object(), ttl=1 + len(dictionary))
    dictionary.timer.advance(seconds)
    return dictionary


def queued(queue, seconds=0.0):
    for delay in (0, 5, 300, 1e6):
        queue.put_nowait(delay, delay)
    queue.timer.advance(seconds)
    return queue


def shut(queue):
    queue.shutdown()
    return queue


def ringing(cls):
    """One whose alarm is ringing, because its on_expire has asked the timer for more, which refuses."""
    made = cls(1, timer=hwheel.ManualTimer(), on_expire=lambda pairs: made.timer.advance(1))
    try:
        filled(made, 2)
    except RuntimeError:
        pass
    return made


def close_timer(container):
    container.timer.close()
    return container


def handed_out(*called, batch=False):
    """What an executor is given, that keeps it; then these methods are called."""
    kept = []

    class Keeps:
        def submit(self, function, handed):
            kept.append(handed)

    timer = hwheel.SystemTimer(executor=Keeps(), reaper=False)
    if batch:
        timer.call_many(array("q", [0, 0]), ignore)
    else:
        timer.call_every(1e9, ignore).reschedule(0)
    while not kept:
        timer.advance_clock(1)
    for name in called:
        getattr(kept[0], name)()
    return kept[0]


def bare(cls):
    return cls.__new__(cls)


def failed_init(thing, *args):
    try:
        thing.__init__(*args)
    except (TypeError, ValueError):
        pass
    return thing


# --- odd arguments -------------------------------------------------------------------------------------------------


class Raises:
    """Answers every question with an error."""

    def __index__(self):
        raise ZeroDivisionError

    __float__ = __len__ = __iter__ = __call__ = __hash__ = __bool__ = __index__


NUMBERS = [0, 1, -1, 5, 2**31, 2**62, 2**63 - 1, -(2**63), 2**64, 0.5, -0.0, float("nan"), float("inf"), 1e300]


def odd_values(thing):
    timer = hwheel.ManualTimer()
    try:
        first_key = thing.peek()
    except Exception:
        first_key = None  # no queue, or never set up
    # fmt: off
    return [
        *NUMBERS, None, True, "", "skip", "monotonic", b"", (), [], {}, [1, 2], {"a": 1}, object(), ignore, Raises(),
        Raises, hwheel.TimerTask, array("q"), array("q", [0, 1, -1, 2**62]), array("q", [1]), array("d", [1.0]),
        bytearray(16), memoryview(array("q", [3, 1, 2]))[::-1], thing, type(thing), hwheel.TimerTask(0),
        hwheel.TimerTask.__new__(hwheel.TimerTask), timer, timer.call_later(1.0, ignore), timer.call_every(1.0, ignore),
        timer.call_many(array("q", [1, 2]), ignore), bare(hwheel.SystemTimer), bare(hwheel.TimingWheel), ValueError(),
        bare(hwheel_core.OperationCore), bare(hwheel_core.TimerBatch), bare(hwheel_core.LoopHandle),
        bare(_core.HandedOut), bare(hwheel.types.DelayKey), hwheel.DelayQueue(timer=timer).put(1, 1), first_key,
    ]
    # fmt: on


def arguments(chance, thing):
    values = odd_values(thing)
    return [chance.choice(NUMBERS if chance.random() < 0.3 else values) for _ in range(chance.randrange(5))]


# --- the calls -----------------------------------------------------------------------------------------------------


def names_of(cls):
    return [name for name in dir(cls) if name not in LEFT_OUT and (name in OF_OBJECT or not hasattr(object, name))]


def say(*words):
    """What is about to be done, in one system call, so that it is there whatever comes of it."""
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


CHECKED = (
    hwheel_core.TimingWheel,
    hwheel_core.BaseTimer,
    hwheel_core.TimerGroup,
    hwheel_core.LoopTimers,
    hwheel_core.ContainerCore,
)


def attempt(chance, thing, name, where, *, bare_call=False):
    values = [] if bare_call else arguments(chance, thing)
    # Without the values' repr(), which would be a call of its own.
    say(where, name, *[value if type(value) in (int, float, str, bool) else type(value).__name__ for value in values])
    try:
        if name in WAITS and isinstance(thing, hwheel_core.BaseTimer):
            thing._stop(False)
        if name in WAITS and isinstance(thing, hwheel_core.DelayQueueCore):
            thing.shutdown(immediate=True)
        if callable(getattr(type(thing), name)):
            getattr(thing, name)(*values)
        else:
            getattr(thing, name)
            if values:
                setattr(thing, name, values[0])
                delattr(thing, name)
    except SystemError:
        raise
    except Exception:
        pass
    if hwheel_core.DEBUG and not name.startswith("_") and isinstance(thing, CHECKED):
        try:
            hwheel_core.debug_check(thing)
        except RuntimeError:
            pass  # never set up


def settle(thing):
    """The end of an object: closed, and dropped."""
    try:
        thing.close(timeout=0)
    except SystemError:
        raise
    except Exception:
        pass


def in_its_state(chance, cls, calls):
    for state, make in makers(cls.__name__, cls).items():
        try:
            make()
        except (TypeError, RuntimeError):
            continue  # it cannot be made without arguments, or a running loop
        for name in names_of(cls):
            for number in range(calls + 1):
                faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
                thing = make()
                # Once without arguments: what takes none refuses most of what is drawn before it does anything.
                attempt(chance, thing, name, state, bare_call=number == 0)
                settle(thing)
                del thing


def in_a_child(chance, cls, calls):
    """What a fork finds: everything was made by the parent."""
    for state, make in makers(cls.__name__, cls).items():
        try:
            things = [(name, make()) for name in names_of(cls) for _ in range(calls)]
        except (TypeError, RuntimeError):
            continue
        faulthandler.cancel_dump_traceback_later()  # its thread would not be there in the child
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                while things:
                    signal.alarm(PATIENCE_S)
                    name, thing = things.pop()
                    attempt(chance, thing, name, f"forked, {state}")
                    settle(thing)
                    del thing
                code = 0
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        _, status = os.waitpid(pid, 0)
        for _, thing in things:
            settle(thing)
        if status:
            say("the child ended with", status)
            sys.exit(1)


def in_its_own_callback(chance, cls, calls):
    """A callback that calls a method of what runs it."""
    for name in names_of(cls):
        for _ in range(calls):
            faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
            timer = cls() if issubclass(cls, hwheel.ManualTimer) else hwheel.ManualTimer()
            box = []

            def callback(*_, name=name, timer=timer, box=box):
                attempt(chance, box[0], name, "in its callback")

            if issubclass(cls, hwheel.ManualTimer):
                box.append(busy(timer))
                timer.call_later(0, callback)
            elif cls is hwheel.TimerTask:
                box.append(timer.call_later(0, callback))
            elif cls is hwheel.TimerBatch:
                box.append(timer.call_many(array("q", [0, 0, 1, 2]), callback))
            elif cls is type(a_periodic_task()):
                box.append(timer.call_every(0.002, callback))
            else:
                return
            try:
                timer.advance(0.005)
            except SystemError:
                raise
            except Exception:
                pass
            settle(timer)
            box.clear()


def main(name, calls, seed):
    chance = random.Random(seed)
    cls = classes()[name]
    threading.excepthook = ignore  # odd callbacks raise on a timer's thread
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks in a process with threads
    in_its_state(chance, cls, calls)
    if hasattr(os, "fork"):
        in_a_child(chance, cls, calls)
    in_its_own_callback(chance, cls, calls)
    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
    gc.collect()
    say("all done")


if __name__ == "__main__":
    faulthandler.enable()
    if len(sys.argv) == 1:
        print("\n".join(classes()))
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
