"""An account of all tasks of a timer.

Each task ends exactly once: it runs, a cancel() of it returns True, or close() returns it.
"""

import gc
import itertools
import threading
import weakref
from collections import Counter

from waiting import wait_until


class Argument:
    """The argument of a task. It identifies the task, and shows whether the timer has released it."""

    def __init__(self, number):
        self.number = number


class BatchCallback:
    def __init__(self, account, number):
        self.account = account
        self.number = number

    def __call__(self, indices):
        self.account.ran.extend((self.number, index) for index in indices)


class Account:
    def __init__(self):
        self._numbers = itertools.count()
        self.ran = []
        self.every_ran = []
        self.tasks = {}  # number -> task or batch, if the add returned
        self.lengths = {}  # number -> length of the batch
        self.every = set()  # numbers of periodic tasks
        self.cancelled = set()
        self.returned = []  # by close()
        self.arguments = []  # weak references

    # --- adds: an interrupted add leaves its number without a task ---

    def later(self, timer, delay, run=None, **terms):
        number = next(self._numbers)
        self.tasks[number] = timer.call_later(delay, run or self.run, self._argument(number), **terms)
        return self.tasks[number]

    def many(self, timer, delays):
        number = next(self._numbers)
        self.lengths[number] = len(delays)
        callback = BatchCallback(self, number)
        self.arguments.append(weakref.ref(callback))
        self.tasks[number] = timer.call_many(delays, callback)
        return self.tasks[number]

    def again(self, timer, interval):
        number = next(self._numbers)
        self.every.add(number)
        self.tasks[number] = timer.call_every(interval, self.run_every, self._argument(number))
        return self.tasks[number]

    def _argument(self, number):
        argument = Argument(number)
        self.arguments.append(weakref.ref(argument))
        return argument

    def run(self, argument):
        self.ran.append(argument.number)

    def run_every(self, argument):
        self.every_ran.append(argument.number)

    # --- close ---

    def take_back(self, returned):
        for one in returned:
            if hasattr(one, "indices"):
                self.returned.extend((getattr(one.callback, "number", None), index) for index in one.indices())
            else:  # a task that was not added here is counted as None
                known = one.args and isinstance(one.args[0], Argument)
                self.returned.append(one.args[0].number if known else None)

    def close(self, timer, **how):
        self.take_back(timer.close(**how))

    def faults(self, timer):
        """Return the faults after close(), as a list of sentences."""
        found = self._wrong_ends() + self._wrong_counters(timer)
        if left := self.threads_left():
            found.append(f"threads are left: {left}")
        self.tasks.clear()
        wait_until(self._is_released, 1)
        if not self._is_released():
            kept = sum(one() is not None for one in self.arguments)
            found.append(f"arguments are kept: {kept} of {len(self.arguments)}")
        return found

    def _wrong_ends(self):
        """Return which tasks did not end exactly once."""
        ends = Counter(self.ran)
        ends.update(self.returned)
        ends.update(self.cancelled)
        for number in self.every & self.tasks.keys():
            # A periodic task that was running during close() has ended, and is not returned.
            ends[number] += self.tasks[number].cancelled and number not in [*self.returned, *self.cancelled]
        sure, unsure = [], []
        for number in range(next(self._numbers)):
            keys = [(number, i) for i in range(self.lengths[number])] if number in self.lengths else [number]
            (sure if number in self.tasks else unsure).append(keys)
        found = []
        for wrong, what in [(lambda n: n == 0, "lost"), (lambda n: n > 1, "ended more than once")]:
            those = [key for keys in sure for key in keys if wrong(ends[key])]
            if those:
                found.append(f"{what}: {those}; ran {self.ran}, cancelled {self.cancelled}, returned {self.returned}")
        for keys in unsure:
            if len({ends[key] for key in keys}) > 1 or ends[keys[0]] > 1:
                found.append(f"an interrupted add is halved: {[ends[key] for key in keys]}")
        return found

    def _wrong_counters(self, timer):
        found = []
        stats = timer.stats()
        if stats.pending or len(timer):
            found.append(f"{stats.pending} are pending after close()")
        if stats.added != stats.expired + stats.cancelled + stats.pending + len(self.returned):
            found.append(f"the counters do not add up with {len(self.returned)} returned: {stats}")
        tasks = {number: one for number, one in self.tasks.items() if number not in self.lengths}
        if pending := [number for number, one in tasks.items() if one.pending]:
            found.append(f"pending after close(): {pending}")
        return found

    def _is_released(self):
        gc.collect()
        return all(one() is None for one in self.arguments)

    @staticmethod
    def threads_left():
        wait_until(lambda: not timer_threads(), 2)
        return timer_threads()


def timer_threads():
    """Return the names of timers' threads."""
    # After an interrupted Thread.start(), threading.enumerate() lists the thread forever, although it never ran.
    alive = [one.name for one in threading.enumerate() if one.is_alive()]
    return [name for name in alive if name.startswith(("reaper-", "executor-"))]
