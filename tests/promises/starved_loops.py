"""Scenes of starving.py: event loops."""

import asyncio
from collections import deque

import hwheel_core
from hwheel.asyncio import new_event_loop
from starving import ENDLESS, FAR, IN_PYTHON, MOST, named, print_nothing, scene


class LoopCase:
    """A loop with some calls on it; after the operation it runs, and each has to come once."""

    def __init__(self):
        self.loop = new_event_loop()
        self.loop.set_exception_handler(print_nothing)
        self.ran = deque()
        self.handles = [self.loop.call_later(delay / 1000, self.ran.append, delay) for delay in (2, 4, 4, 10_000)]

    def faults(self, calls):
        for _ in range(3):  # what failed in the loop's own code is raised by it, once
            try:
                self.loop.call_later(0.02, self.loop.stop)
                self.loop.run_forever()
            except MemoryError:
                continue
        if sorted(self.ran) != sorted(calls):
            yield f"came {sorted(self.ran)}, wanted {sorted(calls)}"
        if hwheel_core.DEBUG:
            hwheel_core.debug_check(self.loop._wheel_timers)
        for handle in self.handles:
            handle.cancel()
        self.loop.close()


def uses_loop(name, use, after, calls=(2, 4, 4)):
    def play(world):
        case = LoopCase()
        return use(case), lambda error: case.faults(calls if error else after)

    named(name, play)


uses_loop("loop_call_later", lambda case: lambda: case.loop.call_later(0.003, case.ran.append, 3), (2, 3, 4, 4))
uses_loop("loop_call_at_far", lambda case: lambda: case.loop.call_at(FAR, case.ran.append, 3), (2, 4, 4))
uses_loop("loop_call_later_first", lambda case: lambda: case.loop.call_later(0, case.ran.append, 3), (2, 3, 4, 4))
uses_loop("loop_cancel", lambda case: case.handles[1].cancel, (2, 4), (2, 4))
uses_loop("loop_reschedule", lambda case: lambda: case.handles[1].reschedule(0.006), (2, 4, 4))
uses_loop("loop_reschedule_far", lambda case: lambda: case.handles[1].reschedule(FAR), (2, 4))


@scene
def loop_pass(world):
    """The loop runs in the middle of it."""
    case = LoopCase()
    case.loop.call_later(0.008, case.loop.stop)
    return case.loop.run_forever, lambda error: case.faults((2, 4, 4))


MOST["loop_pass"] = 30
ENDLESS.add("loop_pass")
IN_PYTHON.add("loop_pass")


@scene
def await_task(world):
    """Who begins to await a task, or not; the task runs either way, and who awaits it hears of it or is cancelled."""
    case = LoopCase()
    task = world.later(0.5)
    wait = task.__await__()
    waits = []

    def act():
        waits.append(None)
        asyncio._set_running_loop(case.loop)
        waits[0] = wait.send(None)

    def faults(error):
        asyncio._set_running_loop(None)
        world.timer.advance(1)
        if error is None:
            case.loop.run_until_complete(asyncio.wait_for(waits[0], 30))
        yield from case.faults((2, 4, 4))

    return act, faults


IN_PYTHON.add("await_task")
