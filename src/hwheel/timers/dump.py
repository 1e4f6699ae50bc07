"""dump() and load(): pending tasks survive an orderly restart, as bytes.

The format is MAGIC, the version, the length of the body, its digest, and the body. The body is a pickle with the number
of tasks, followed by chunks of up to CHUNK tasks. A chunk is a pickle with the times and the plain calls of its tasks.
If a chunk has other calls, they follow in a second pickle. A call is plain if it consists of a function, numbers, and
strings.

A single pickler writes all other calls, so that objects that two calls share are shared again after load(). A pickler
remembers all objects that it has written. With a million plain calls, it would hold the GIL for long while this memory
grows, so plain calls have their own pickles.

The digest detects truncation and accidental changes; it is no signature. load() trusts a body that matches its digest,
because only dump() writes one.
"""

import hashlib
import io
import pickle
import struct
import time
from collections.abc import Callable, Iterator
from itertools import islice
from time import sleep
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

from hwheel_core import BaseTimer, HwheelError, TimerBatch, TimerClosed, TimerTask

MAGIC = b"hwheelD\n"
VERSION = 1
HEAD = struct.Struct(f">{len(MAGIC)}sHQ16s")
PROTOCOL = 5
MAX_PASSES = 1000  # of dump(); each pass checks the tasks that were added during the previous one
NS_PER_MS = 1_000_000
CHUNK = 500  # tasks; writing them takes half a millisecond
NAP_S = 0.00005  # after each chunk; long enough for a waiting thread to take the GIL
PLAIN_TYPES = {*map(id, (int, float, bool, str, bytes, type(None)))}  # by identity: not every type can be hashed
Write = Callable[[list[TimerTask | TimerBatch]], bytes]


class DumpError(HwheelError):
    """A task cannot be pickled, or data is not a dump that this program can read."""

    __module__ = "hwheel"


class Loaded(NamedTuple):
    """The result of ``load()``.

    Attributes:
        tasks: The tasks that were added, ordered by deadline.
        overdue: With ``overdue="return"``, the tasks whose deadline had passed. They were not added: call ``run()``, or
            ``add()`` them. Their ``delay_ms`` is negative: minus the time by which they are late.
    """

    tasks: list[TimerTask]
    overdue: list[TimerTask]


Loaded.__module__ = "hwheel.types"


class _NullFile:
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
    """Close the timer once each pending task has passed a trial run. If a task fails, raise and change nothing."""
    trial = _Writer(timer, _NullFile(), 0)
    for number in range(MAX_PASSES):
        if timer._has_batches():
            raise DumpError("a batch of call_many cannot be dumped: cancel it, or let it run, before dump()")
        tasks = timer._unmarked_tasks(number == 0)
        while tasks:
            chunk = tasks[-CHUNK:]
            del tasks[-CHUNK:]  # releasing the whole list at once would take long
            sleep(NAP_S)
            try:
                trial.write(chunk)
            except (MemoryError, DumpError):
                raise
            except Exception:
                trial = _Writer(timer, _NullFile(), 0)  # the old one counts the failed object as written
                _find_failure(trial, chunk, "cannot be dumped, because its call cannot be pickled")
            for task in chunk:
                timer._mark_writable(task)
        if timer._close_if_writable():
            return
    raise DumpError("timers are added faster than they can be dumped: stop adding before dump()")


def _find_failure(writer: "_Writer", tasks: list[Any], problem: str) -> None:
    """Raise a DumpError that names the first task that cannot be written. Skip tasks that have ended."""
    for task in tasks:
        try:
            writer.write([task])
        except (MemoryError, DumpError):
            raise
        except Exception as error:
            if task.pending or task.callback is not None:
                raise DumpError(f"{task!r} {problem}: {error}") from error
            writer.forget()  # the task has run or was cancelled in the meantime


class _Writer:
    """Writes chunks of tasks to a file."""

    def __init__(self, timer: BaseTimer, file: Any, shift_ns: int) -> None:
        self._timer, self._file, self._shift_ns = timer, file, shift_ns
        self._pickler = pickle.Pickler(file, PROTOCOL)  # for all calls that are not plain

    def forget(self) -> None:
        """Forget which objects have been written."""
        self._pickler.clear_memo()

    def write(self, tasks: list[Any]) -> None:
        """Write a chunk.

        The first pickle has the deadlines, {index: (terms, repeats)}, the numbers of arguments (~n if the call is not
        plain), and the plain calls. The second pickle has the other calls.
        """
        deadlines: list[int] = []
        extras: dict[int, tuple[Any, Any]] = {}
        counts: list[int] = []
        plain: list[Any] = []  # a list for all calls: a tuple for each would keep the garbage collector busy
        others: list[Any] = []
        for task in tasks:
            deadline_ms, terms, repeats, random = self._facts(task)
            callback, args, kwargs = task.callback, task.args or (), task.kwargs or None
            if terms is not None:
                extras[len(deadlines)] = terms, repeats
            deadlines.append(deadline_ms * NS_PER_MS + self._shift_ns)
            if kwargs is None and random is None and _is_plain(callback, args):
                counts.append(len(args))
                plain += (callback, *args)
            else:
                counts.append(~len(args))
                others += (callback, kwargs, random, *args)
        self._file.write(pickle.dumps((deadlines, extras, counts, plain), PROTOCOL))
        if others:
            self._pickler.dump(others)

    def _facts(self, task: Any) -> tuple[int, Any, Any, Any]:
        facts = None if isinstance(task, TimerBatch) else self._timer._task_facts(task)
        if facts is None:
            raise DumpError(
                f"{task!r} cannot be dumped, because its class is {type(task).__qualname__}: dump() supports the tasks "
                "of call_later, call_at and call_every, and plain TimerTasks"
            )
        deadline_ms, terms, repeats, random = facts
        if repeats is not None:
            interval_ns, missed, next_ns, jitter_ns = repeats
            repeats = interval_ns, missed, next_ns + self._shift_ns, jitter_ns
        return deadline_ms, terms, repeats, random


def _is_plain(callback: Any, args: tuple[Any, ...]) -> bool:
    """Return True for a call that shares no object with another one, except for functions and classes."""
    kind = type(callback)
    if kind is BuiltinFunctionType:
        if type(callback.__self__) is not ModuleType:
            return False
    elif kind is not FunctionType and kind is not type:
        return False
    return PLAIN_TYPES.issuperset(map(id, map(type, args)))


def _written(timer: BaseTimer, not_run: list[Any], wall_ns: int) -> bytes:
    """Return the dump of the tasks that have not run."""
    file = io.BytesIO()  # its buffer becomes the result without a copy
    file.write(bytes(HEAD.size))
    file.write(pickle.dumps(len(not_run), PROTOCOL))
    writer = _Writer(timer, file, wall_ns - round(timer.time() * 1e9))
    for begin in range(0, len(not_run), CHUNK):
        chunk = not_run[begin : begin + CHUNK]
        sleep(NAP_S)
        try:
            writer.write(chunk)
        except (MemoryError, DumpError):
            raise
        except Exception as error:
            problem = "can no longer be dumped (call dump() again, or close()), because its call has changed"
            _find_failure(_Writer(timer, _NullFile(), 0), chunk, problem)
            raise DumpError(f"the timer can no longer be dumped, because a call has changed: {error}") from error
    with file.getbuffer() as body:
        head = HEAD.pack(MAGIC, VERSION, len(body) - HEAD.size, _digest(body[HEAD.size :]))
    file.seek(0)
    file.write(head)
    return file.getvalue()


def _digest(body: Any) -> bytes:
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
    late: list[TimerTask] = []
    loaded = Loaded([], late)  # allocated before tasks are added, because the allocation may fail
    timer._add_records(_records(bytes(data), late if overdue == "return" else None, wall_ns), loaded.tasks)
    return loaded


def _records(data: bytes, late: list[TimerTask] | None, wall_ns: int) -> Iterator[tuple[Any, ...]]:
    """Yield the records for _add_records(). late: receives the overdue tasks. If late is None, yield them, too."""
    for (due_ns, terms, repeats), (callback, args, kwargs, random) in _read(data):
        wait_ns = due_ns - wall_ns
        if repeats is not None:
            interval_ns, missed, next_ns, jitter_ns = repeats
            next_ns -= wall_ns
            if late is not None and wait_ns <= 0:
                # A repeating task is never overdue: it continues at the next time of its grid.
                next_ns += max(0, -next_ns // interval_ns + 1) * interval_ns
                wait_ns = next_ns
            repeats = interval_ns, missed, next_ns, jitter_ns
        elif late is not None and wait_ns <= 0:
            late.append(TimerTask(-(-wait_ns // NS_PER_MS), callback, *args, **kwargs or {}))
            continue
        yield callback, args, kwargs, random, wait_ns, terms, repeats


def _read(data: bytes) -> Iterator[tuple[Any, Any]]:
    """Yield the times and the call of each task."""
    _check(data)
    file = io.BytesIO(data)
    file.seek(HEAD.size)
    total, done = pickle.load(file), 0
    shared = pickle.Unpickler(file)
    while done < total:
        try:
            deadlines, extras, counts, plain = pickle.load(file)
            others = shared.load() if min(counts) < 0 else ()
        except MemoryError:
            raise
        except Exception as error:
            where = f"one of the tasks {done + 1} to {min(done + CHUNK, total)}"
            raise DumpError(f"{where} cannot be read: {type(error).__name__}: {error}") from error
        yield from _tasks_of(deadlines, extras, counts, iter(plain), iter(others))
        done += len(deadlines)
        sleep(NAP_S)


def _tasks_of(
    deadlines: list[int], extras: dict[int, Any], counts: list[int], plain: Iterator[Any], others: Iterator[Any]
) -> Iterator[tuple[Any, Any]]:
    """Yield the times and the call of each task of a chunk."""
    for index, (due_ns, count) in enumerate(zip(deadlines, counts, strict=True)):
        times = due_ns, *extras.get(index, (None, None))
        if count >= 0:
            yield times, (next(plain), tuple(islice(plain, count)), None, None)
        else:
            callback, kwargs, random = islice(others, 3)
            yield times, (callback, tuple(islice(others, ~count)), kwargs, random)


def _check(data: bytes) -> None:
    """Raise a DumpError unless the data is a complete dump that this version can read."""
    if len(data) < HEAD.size or data[: len(MAGIC)] != MAGIC:
        raise DumpError(f"this is not a dump of a timer: it begins with {bytes(data[:16])!r}")
    _, version, length, digest = HEAD.unpack_from(data)
    if version != VERSION:
        raise DumpError(f"this dump has format version {version}, but this hwheel reads version {VERSION}")
    body = memoryview(data)[HEAD.size :]  # without a copy
    if len(body) != length:
        raise DumpError(f"this dump is incomplete: it has {len(body):,} of {length:,} bytes")
    if _digest(body) != digest:
        raise DumpError("this dump was changed after it was written")
