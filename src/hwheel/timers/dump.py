"""dump() and load(): what is pending survives an orderly restart, as bytes.

The bytes are MAGIC, the version of the format, the length of what follows, its digest, and two kinds of pickles: first
the times, plain numbers, of all tasks; then the call of each. One pickler writes all calls, so that what two of them
share they share again. The digest finds what is cut off or was changed by accident; it is no signature.
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
PATIENCE = 1000  # how often dump() looks for what has come in while it looked
NS_PER_MS = 1_000_000
Write = Callable[[list[TimerTask | TimerBatch]], bytes]
MISSED = ("skip", "burst", "delay")


class DumpError(HwheelError):
    """A task cannot be written, or what is to be read is no dump, or one that this program cannot read."""

    __module__ = "hwheel"


class Loaded(NamedTuple):
    """What load() returns. tasks: those that it added, in the order in which dump() wrote them: that of their times.
    overdue: with overdue="return" those whose time was over; their delay_ms says by how much, below zero. They were not
    added: call run(), or add() them."""

    tasks: list[TimerTask]
    overdue: list[TimerTask]


Loaded.__module__ = "hwheel.types"


class _Nowhere:
    """A file for a pickler that only tries."""

    def write(self, data: Any) -> int:
        return len(data)


def _wall_ns(now: float | None) -> int:
    """Now, in ns since 1970, or what was given as such in seconds."""
    if now is None:
        return time.time_ns()
    if isinstance(now, bool) or not isinstance(now, (int, float)):
        raise TypeError(f"now must be a number of seconds since 1970, not {type(now).__name__}")
    if not -(2**53) < now < 2**53:
        raise ValueError(f"now must be a number of seconds since 1970, not {now!r}")
    return int(now) * 10**9 + round((now - int(now)) * 1e9)


# --- writing ----------------------------------------------------------------------------------------------------------


def begin_dump(timer: BaseTimer, now: float | None) -> Write:
    """The first part of dump(). Returns the last one, for what had not run."""
    wall_ns = _wall_ns(now)
    if not timer.closed:
        _close_when_writable(timer)

    def write(not_run: list[TimerTask | TimerBatch]) -> bytes:
        return _written(timer, not_run, _wall_ns(None) if now is None else wall_ns)

    return write


def _close_when_writable(timer: BaseTimer) -> None:
    """Closes the timer at a moment when all that is pending has been tried; or raises, and nothing has changed."""
    tries = pickle.Pickler(_Nowhere(), PROTOCOL)
    for number in range(PATIENCE):
        if timer._has_batches():
            raise DumpError("a batch of call_many cannot be written: cancel it, or let it run, before dump()")
        for task in timer._writable(number == 0):
            _try(tries, timer, task)
            timer._set_writable(task)
        if timer._close_if_writable():
            return
    raise DumpError("timers come in faster than they can be written: let what adds them come to rest first")


def _try(tries: pickle.Pickler, timer: BaseTimer, task: TimerTask) -> None:
    facts = timer._facts(task)
    if facts is None:
        raise DumpError(
            f"{task!r} cannot be written, because its class is {type(task).__qualname__}: dump() writes what "
            "call_later, call_at and call_every make, and plain TimerTasks"
        )
    try:
        tries.dump(_call_of(task, facts[-1]))
    except MemoryError:
        raise
    except Exception as error:
        if not task.pending and task.callback is None:
            tries.clear_memo()  # else what has failed would pass with the next task that shares it
            return  # it has run meanwhile, or was cancelled
        raise DumpError(f"{task!r} cannot be written, because its call cannot be pickled: {error}") from error


def _call_of(task: TimerTask, random: Any) -> tuple[Any, Any, Any, Any]:
    return task.callback, task.args or (), task.kwargs or {}, random


def _written(timer: BaseTimer, not_run: list[Any], wall_ns: int) -> bytes:
    """The bytes for what had not run."""
    now_ns = round(timer.time() * 1e9)
    shift_ns = wall_ns - now_ns
    times = []
    calls = io.BytesIO()
    pickler = pickle.Pickler(calls, PROTOCOL)
    for task in not_run:
        if isinstance(task, TimerBatch) or (facts := timer._facts(task)) is None:
            raise DumpError(f"{task!r} cannot be written; close() returns what had not run")
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
                f"{task!r} cannot be written any more, because its call was changed meanwhile: {error}; dump() can be "
                "called again, or close(), which returns what had not run"
            ) from error
    body = pickle.dumps(times, PROTOCOL) + calls.getvalue()
    return HEAD.pack(MAGIC, VERSION, len(body), _digest(body)) + body


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


# --- reading ----------------------------------------------------------------------------------------------------------


def load_timer(timer: BaseTimer, data: Any, overdue: str, now: float | None) -> Loaded:
    """SystemTimer.load."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be the bytes that dump() returned, not {type(data).__name__}")
    if not isinstance(overdue, str) or overdue not in ("run", "return"):
        raise ValueError(f'overdue must be "run" or "return", not {overdue!r}')
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
                # It has no end, so it is not over: it goes on at the next time of its grid.
                next_ns += max(0, -next_ns // interval_ns + 1) * interval_ns
                wait_ns = next_ns
            repeats = interval_ns, missed, next_ns, jitter_ns
        elif overdue == "return" and wait_ns <= 0:
            late.append(TimerTask(-(-wait_ns // NS_PER_MS), callback, *args, **kwargs))
            continue
        records.append((callback, args, kwargs, random, wait_ns, terms, repeats))
    loaded = Loaded([], late)  # before anything is added, because there may be no memory for it
    timer._add_records(records, loaded.tasks)
    return loaded


def _read(data: bytes) -> list[tuple[Any, Any]]:
    """The times and the call of each task; DumpError where there is a doubt about any."""
    body = _body(data)
    file = io.BytesIO(body)
    found: list[tuple[Any, Any]] = []
    times: Any = None
    try:
        times = pickle.load(file)
        _check(isinstance(times, list) and all(map(_is_time, times)))
        reader = pickle.Unpickler(file)
        for one in times:
            call = reader.load()
            _check(_is_call(call, one[-1]))
            found.append((one, call))
        _check(file.tell() == len(body))
    except (DumpError, MemoryError):
        raise
    except Exception as error:
        which = "its times" if times is None else f"task {len(found) + 1} of {len(times)}"
        raise DumpError(f"{which} cannot be read: {type(error).__name__}: {error}") from error
    return found


def _body(data: bytes) -> bytes:
    if len(data) < HEAD.size or data[: len(MAGIC)] != MAGIC:
        raise DumpError(f"this is no dump of a timer: {bytes(data[:16])!r}")
    _, version, length, digest = HEAD.unpack_from(data)
    if version != VERSION:
        raise DumpError(f"this dump has version {version} of the format, and this hwheel reads version {VERSION}")
    body = data[HEAD.size :]
    if len(body) != length:
        raise DumpError(f"this dump is not whole: it has {len(body):,} of {length:,} bytes")
    if _digest(body) != digest:
        raise DumpError("this dump was changed after it was written")
    return body


def _check(condition: bool) -> None:
    if not condition:
        raise DumpError("this dump holds something else than tasks")


def _is_time(one: Any) -> bool:
    if not (isinstance(one, tuple) and len(one) == 3 and type(one[0]) is int):
        return False
    _, terms, repeats = one
    if terms is not None and not (isinstance(terms, tuple) and len(terms) == 2 and all(map(_is_length, terms))):
        return False
    return repeats is None or (
        isinstance(repeats, tuple)
        and len(repeats) == 4
        and _is_length(repeats[0])
        and repeats[0] > 0
        and repeats[1] in MISSED
        and type(repeats[2]) is int
        and _is_length(repeats[3])
    )


def _is_length(ns: Any) -> bool:
    return type(ns) is int and 0 <= ns < 2**63 * NS_PER_MS


def _is_call(call: Any, repeats: Any) -> bool:
    return (
        isinstance(call, tuple)
        and len(call) == 4
        and (callable(call[0]) or (call[0] is None and repeats is None))
        and type(call[1]) is tuple
        and type(call[2]) is dict
        and all(type(name) is str for name in call[2])
        and (call[3] is None or (callable(call[3]) and repeats is not None))
    )
