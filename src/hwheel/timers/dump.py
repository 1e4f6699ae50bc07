"""dump() and load(): pending tasks survive an orderly restart, as bytes.

The format is MAGIC, the version, the length of the body, its digest, and the body. The body is one pickle with the
times of all tasks, as plain numbers, followed by one pickle for the call of each task. A single pickler writes all
calls, so that objects that two calls share are shared again after load(). The digest detects truncation and accidental
changes; it is no signature. A body that fits its digest is trusted: only dump() writes one.
"""

import hashlib
import io
import pickle
import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from hwheel_core import BaseTimer, HwheelError, TimerBatch, TimerClosed, TimerTask

MAGIC = b"hwheelD\n"
VERSION = 1
HEAD = struct.Struct(f">{len(MAGIC)}sHQ16s")
PROTOCOL = 5
MAX_PASSES = 1000  # of dump(); each pass checks the tasks that were added during the previous one
NS_PER_MS = 1_000_000
Write = Callable[[list[TimerTask | TimerBatch]], bytes]


class DumpError(HwheelError):
    """A task cannot be pickled, or data is not a dump that this program can read."""

    __module__ = "hwheel"


class Loaded(NamedTuple):
    """The result of ``load()``.

    Attributes:
        tasks: The tasks that were added, ordered by deadline.
        overdue: With ``overdue="return"``, the tasks whose deadline had passed. They were not added: call ``run()``, or
            ``add()`` them. Their ``delay_ms`` is negative and says how late they are.
    """

    tasks: list[TimerTask]
    overdue: list[TimerTask]


Loaded.__module__ = "hwheel.types"


class _Nowhere:
    """A file that discards its data, for a trial run of the pickler."""

    def write(self, data: Any) -> int:
        return len(data)


def _wall_ns(now: float | None) -> int:
    """Return `now`, or the current time by default, in nanoseconds since 1970."""
    if now is None:
        return time.time_ns()
    if isinstance(now, bool) or not isinstance(now, (int, float)):
        raise TypeError(f"now must be a number of seconds since 1970, got {type(now).__name__}")
    if not -(2**53) < now < 2**53:
        raise ValueError(f"now must be a number of seconds since 1970, got {now!r}")
    return int(now) * 10**9 + round((now - int(now)) * 1e9)


# --- writing ----------------------------------------------------------------------------------------------------------


def begin_dump(timer: BaseTimer, now: float | None) -> Write:
    """Close the timer if all its tasks can be pickled. Return the function that writes the tasks that have not run."""
    wall_ns = _wall_ns(now)
    if not timer.closed:
        _close_when_writable(timer)

    def write(not_run: list[TimerTask | TimerBatch]) -> bytes:
        return _written(timer, not_run, _wall_ns(None) if now is None else wall_ns)

    return write


def _close_when_writable(timer: BaseTimer) -> None:
    """Close the timer at a moment when each pending task has passed a trial run; or raise and change nothing."""
    trial = pickle.Pickler(_Nowhere(), PROTOCOL)
    for number in range(MAX_PASSES):
        if timer._has_batches():
            raise DumpError("a batch of call_many cannot be dumped: cancel it, or let it run, before dump()")
        for task in timer._unmarked_tasks(number == 0):
            _try(trial, timer, task)
            timer._mark_writable(task)
        if timer._close_if_writable():
            return
    raise DumpError("timers are added faster than they can be dumped: stop adding before dump()")


def _try(trial: pickle.Pickler, timer: BaseTimer, task: TimerTask) -> None:
    facts = timer._task_facts(task)
    if facts is None:
        raise DumpError(
            f"{task!r} cannot be dumped, because its class is {type(task).__qualname__}: dump() supports the tasks of "
            "call_later, call_at and call_every, and plain TimerTasks"
        )
    try:
        trial.dump(_call_of(task, facts[-1]))
    except MemoryError:
        raise
    except Exception as error:
        if not task.pending and task.callback is None:
            trial.clear_memo()  # otherwise the object that failed would pass with the next task that shares it
            return  # the task has run or was cancelled in the meantime
        raise DumpError(f"{task!r} cannot be dumped, because its call cannot be pickled: {error}") from error


def _call_of(task: TimerTask, random: Any) -> tuple[Any, Any, Any, Any]:
    return task.callback, task.args or (), task.kwargs or {}, random


def _written(timer: BaseTimer, not_run: list[Any], wall_ns: int) -> bytes:
    """Return the dump of the tasks that have not run."""
    now_ns = round(timer.time() * 1e9)
    shift_ns = wall_ns - now_ns
    times = []
    calls = io.BytesIO()
    pickler = pickle.Pickler(calls, PROTOCOL)
    for task in not_run:
        if isinstance(task, TimerBatch) or (facts := timer._task_facts(task)) is None:
            raise DumpError(f"{task!r} cannot be dumped; close() returns the tasks that have not run")
        deadline_ms, terms, repeats, random = facts
        if repeats is not None:
            interval_ns, missed, next_ns, jitter_ns = repeats
            repeats = interval_ns, missed, next_ns + shift_ns, jitter_ns
        times.append((deadline_ms * NS_PER_MS + shift_ns, terms, repeats))
        try:
            pickler.dump(_call_of(task, random))
        except MemoryError:
            raise
        except Exception as error:
            raise DumpError(
                f"{task!r} can no longer be dumped, because its call has changed: {error}; call dump() again, or "
                "close(), which returns the tasks that have not run"
            ) from error
    body = pickle.dumps(times, PROTOCOL) + calls.getvalue()
    return HEAD.pack(MAGIC, VERSION, len(body), _digest(body)) + body


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


# --- reading ----------------------------------------------------------------------------------------------------------


def load_timer(timer: BaseTimer, data: Any, overdue: str, now: float | None) -> Loaded:
    """Implement ``load()``."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be the bytes that dump() returned, got {type(data).__name__}")
    if not isinstance(overdue, str) or overdue not in ("run", "return"):
        raise ValueError(f'overdue must be "run" or "return", got {overdue!r}')
    wall_ns = _wall_ns(now)
    if timer.closed:
        raise TimerClosed("the timer is closed")
    records, late = [], []
    for (due_ns, terms, repeats), (callback, args, kwargs, random) in _read(bytes(data)):
        wait_ns = due_ns - wall_ns
        if repeats is not None:
            interval_ns, missed, next_ns, jitter_ns = repeats
            next_ns -= wall_ns
            if overdue == "return" and wait_ns <= 0:
                # A repeating task is never overdue: it continues at the next time of its grid.
                next_ns += max(0, -next_ns // interval_ns + 1) * interval_ns
                wait_ns = next_ns
            repeats = interval_ns, missed, next_ns, jitter_ns
        elif overdue == "return" and wait_ns <= 0:
            late.append(TimerTask(-(-wait_ns // NS_PER_MS), callback, *args, **kwargs))
            continue
        records.append((callback, args, kwargs, random, wait_ns, terms, repeats))
    loaded = Loaded([], late)  # first, because the allocation may fail
    timer._add_records(records, loaded.tasks)
    return loaded


def _read(data: bytes) -> list[tuple[Any, Any]]:
    """Return the times and the call of each task."""
    file = io.BytesIO(_body(data))
    times = pickle.load(file)
    reader = pickle.Unpickler(file)
    found: list[tuple[Any, Any]] = []
    try:
        for one in times:
            found.append((one, reader.load()))
    except MemoryError:
        raise
    except Exception as error:
        where = f"task {len(found) + 1} of {len(times)}"
        raise DumpError(f"{where} cannot be read: {type(error).__name__}: {error}") from error
    return found


def _body(data: bytes) -> bytes:
    if len(data) < HEAD.size or data[: len(MAGIC)] != MAGIC:
        raise DumpError(f"this is not a dump of a timer: it begins with {bytes(data[:16])!r}")
    _, version, length, digest = HEAD.unpack_from(data)
    if version != VERSION:
        raise DumpError(f"this dump has format version {version}, but this hwheel reads version {VERSION}")
    body = data[HEAD.size :]
    if len(body) != length:
        raise DumpError(f"this dump is incomplete: it has {len(body):,} of {length:,} bytes")
    if _digest(body) != digest:
        raise DumpError("this dump was changed after it was written")
    return body
