"""Yardsticks: the minimum cost of an operation, and the simplest code for it."""

from heapq import heapify, heappush
from itertools import count, repeat
from tempfile import mkdtemp
from time import monotonic
from typing import Any

import numpy as np

from core.operations import PAIR_DELAY_S, Inputs, Life, noting
from hwheel import ManualTimer, TimerTask
from implementations.base import Implementation


class Reference(Implementation):
    """A name in the table without a timer."""

    most_called = 1_000_000


class ReferenceLife(Life):
    """A life of one step that fires no timer."""

    def fired_indices(self) -> Any:
        return self.expected()


class Floor(Reference):
    name = "empty call that makes a TimerTask"


class FloorLife(ReferenceLife):
    """A call of an empty compiled method that creates a TimerTask, which is freed at once."""

    steps = (("add + cancel", "call"),)

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        super().__init__(make, inputs)
        self.counts = {"add + cancel": inputs.pairs}
        self.call_later = floors().Floor(TimerTask).call_later

    def call(self) -> None:
        call_later, callback, delay = self.call_later, self.fired.append, PAIR_DELAY_S
        for _ in repeat(None, self.inputs.pairs):
            call_later(delay, callback, -1)


class FloorOfPair(Reference):
    name = "a clock, two locks, an object"


class FloorOfPairLife(ReferenceLife):
    """A pair of compiled methods that read the clock, take a lock each, and create an object, without a wheel."""

    steps = (("add + cancel", "pairs"),)

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        super().__init__(make, inputs)
        self.counts = {"add + cancel": inputs.pairs}
        self.call_later = floors().FloorOfPair().call_later

    def pairs(self) -> None:
        call_later, callback, delay = self.call_later, self.fired.append, PAIR_DELAY_S
        for _ in repeat(None, self.inputs.pairs):
            call_later(delay, callback, -1).cancel()


class BareHeap(Reference):
    name = "bare heappush + mark"


class BareHeapLife(ReferenceLife):
    """heappush and a flag, inline in the loop."""

    steps = (("add + cancel", "push_and_mark"),)

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        super().__init__(make, inputs)
        self.counts = {"add + cancel": inputs.pairs}
        self.numbers = count()
        now, append, numbers = monotonic(), self.fired.append, self.numbers
        self.heap = [[now + delay, next(numbers), append, i] for i, delay in enumerate(inputs.delays_s)]
        heapify(self.heap)

    def push_and_mark(self) -> None:
        heap, numbers, callback, delay = self.heap, self.numbers, self.fired.append, PAIR_DELAY_S
        for _ in repeat(None, self.inputs.pairs):
            entry = [monotonic() + delay, next(numbers), callback, -1]
            heappush(heap, entry)
            entry[2] = None


class Look(Reference):
    name = "a look at the handle"


class LookLife(ReferenceLife):
    """Read `pending` of the same handles in the same order as the cancels.

    If the handles do not fit into the caches, this memory access is most of the time of a cancel.
    """

    steps = (("cancel", "look"),)

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        super().__init__(make, inputs)
        self.counts = {"cancel": len(inputs.cancelled)}
        self.wheel = ManualTimer()
        call_later, callback = self.wheel.call_later, self.fired.append
        self.handles = [call_later(delay, callback, i) for i, delay in enumerate(inputs.delays_s)]

    def look(self) -> None:
        handles = self.handles
        for i in self.inputs.cancelled:
            handles[i].pending  # noqa: B018

    def close(self) -> None:
        self.wheel.close()
        super().close()


class BareLoop(Reference):
    name = "bare loop, in order of time"


class BareLoopLife(Life):
    """The callbacks of an expiry in order of time, without a timer. The arguments are scattered over memory."""

    steps = (("expire, Python callback", "loop"),)

    def __init__(self, make: type[Implementation], inputs: Inputs) -> None:
        super().__init__(make, inputs)
        self.counts = {"expire, Python callback": inputs.pending}
        on_timeout = noting(self.fired)
        self.calls = [(on_timeout, inputs.indices[i]) for i in self.order()]

    def order(self) -> list[int]:
        return self.inputs.delays_ms.argsort(kind="stable").tolist()  # type: ignore[no-any-return]

    def expected(self) -> Any:
        return np.arange(self.inputs.pending)

    def loop(self) -> None:
        for callback, argument in self.calls:
            callback(argument)


class BareLoopAsAdded(Reference):
    name = "bare loop, in order of adds"


class BareLoopAsAddedLife(BareLoopLife):
    """The same callbacks in the order of the arguments in memory, which no timer can use."""

    def order(self) -> list[int]:
        return self.inputs.indices


def floors() -> Any:
    """Return the module floor.pyx.

    Raises:
        ImportError: compile_floor() has not compiled it yet.
    """
    from core import floor

    return floor


def compile_floor() -> None:
    """Compile floor.pyx with pyximport into a temporary directory.

    Raises:
        ImportError: Cython or a C compiler is missing.
    """
    import pyximport

    pyximport.install(pyimport=False, build_dir=mkdtemp(prefix="hwheel-floor-"), language_level=3)
    floors()


def references() -> tuple[list[tuple[type[Implementation], type[Life]]], list[str]]:
    """Return the available yardsticks, and a note for each of the others."""
    found: list[tuple[type[Implementation], type[Life]]] = [
        (BareHeap, BareHeapLife),
        (Look, LookLife),
        (BareLoop, BareLoopLife),
        (BareLoopAsAdded, BareLoopAsAddedLife),
    ]
    try:
        compile_floor()
    except Exception as error:
        return found, [f"the least that add and cancel can cost is left out, floor.pyx was not compiled: {error}"]
    return [(Floor, FloorLife), (FloorOfPair, FloorOfPairLife), *found], []
