"""Random programs with nested timeouts: asyncio.timeout() and hwheel.asyncio.timeout() give the same events at the same
times, on a stock loop and on the wheel. The clock is simulated.

Cancellation, expiry, and completion meet in one pass of the loop, because all times are multiples of a few ticks.
"""

import asyncio
import sys

from hypothesis import given
from hypothesis import strategies as st

import hwheel.asyncio
from event_loops import JumpingLoop
from hwheel.asyncio import wheel_loop
from sampling import search_settings

TICK_S = 1 / 4096
STEPS = 200

ticks = st.integers(0, 6)
leaf = st.one_of(
    st.tuples(st.just("sleep"), ticks),
    st.tuples(st.just("pass"), st.just(0)),
    st.tuples(st.just("reschedule"), st.one_of(ticks, st.none())),
    st.tuples(st.just("cancel"), st.integers(0, 3)),
    st.tuples(st.just("uncancel"), st.just(0)),
    st.tuples(st.just("raise"), st.just(0)),
)


def blocks(body):
    names = ["timeout", "timeout_at", "swallow", "turn into KeyError"]
    if sys.version_info >= (3, 12):  # before, asyncio.wait_for() creates a task
        names += ["wait_for"]
    return st.tuples(st.sampled_from(names), st.one_of(ticks, st.none()), st.lists(body, max_size=4))


bodies = st.recursive(leaf, blocks, max_leaves=12)
programs = st.lists(st.lists(bodies, max_size=5), min_size=1, max_size=4)


class Run:
    """The run of a program, each list of which is the body of one task."""

    def __init__(self, loop, functions):
        self.loop = loop
        self.functions = functions
        self.log = []
        self.left = STEPS

    def run(self, program):
        self.tasks = [self.loop.create_task(self.task(i, body)) for i, body in enumerate(program)]
        self.loop.run_until_complete(asyncio.wait(self.tasks))
        ends = [("cancelled" if task.cancelled() else repr(task.exception())) for task in self.tasks]
        pending = len(getattr(self.loop, "_wheel_timers", ()))
        self.loop.close()
        assert not pending, "a timeout was left in the wheel"
        return self.log, ends, [task.cancelling() for task in self.tasks]

    def note(self, *event):
        self.log.append((self.loop.time(), *event))

    async def task(self, number, body):
        try:
            await self.body(number, body, [])
        except BaseException as error:
            self.note(number, type(error).__name__, type(error.__cause__).__name__)
            raise

    async def body(self, number, body, limits):
        for what, *arguments in body:
            if not self.left:
                return
            self.left -= 1
            self.note(number, what)
            if what == "sleep":
                await asyncio.sleep(arguments[0] * TICK_S)
            elif what == "reschedule":
                self.reschedule(number, limits, arguments[0])
            elif what == "cancel":
                self.tasks[arguments[0] % len(self.tasks)].cancel()
            elif what == "uncancel":
                asyncio.current_task().uncancel()
            elif what == "raise":
                raise ValueError
            elif what != "pass":
                await self.block(number, what, *arguments, limits)

    def reschedule(self, number, limits, length):
        if limits:
            try:
                limits[-1].reschedule(None if length is None else self.loop.time() + length * TICK_S)
            except RuntimeError as error:
                self.note(number, str(error))

    async def block(self, number, what, length, inner, limits):
        seconds = None if length is None else length * TICK_S
        if what in ("timeout", "timeout_at"):
            at = seconds if what == "timeout" or seconds is None else self.loop.time() + seconds
            limit = getattr(self.functions, what)(at)
            try:
                async with limit:
                    await self.body(number, inner, [*limits, limit])
            finally:
                self.note(number, repr(limit), limit.expired(), asyncio.current_task().cancelling())
        elif what == "wait_for":
            await self.functions.wait_for(self.body(number, inner, limits), seconds)
        else:
            try:
                await self.body(number, inner, limits)
            except asyncio.CancelledError:
                self.note(number, what)
                if what != "swallow":
                    raise KeyError from None


ran = 0


@search_settings(2000)
@given(programs)
def test_programs_with_timeouts_run_as_with_asyncio(program):
    global ran
    ran += 1
    for loop_class in (JumpingLoop, wheel_loop(JumpingLoop)):
        assert outcome(loop_class, hwheel.asyncio, program) == outcome(loop_class, asyncio, program)


def outcome(loop_class, functions, program):
    return Run(loop_class(), functions).run(program)


def test_the_search_ran_at_least_200_programs():
    assert ran >= 200
