"""Recorder: takes note of timers, and writes them down in a thread of its own.

Whoever reports a timer puts it into a queue and goes on: no lock is waited for, no file is touched. queue.SimpleQueue
is made for that: its put() may even interrupt itself (a finalizer or a signal handler that cancels a timer).
"""

import threading
import time
import weakref
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol, Self

from hwheel.recorder.log_writer import LogWriter, Row
from hwheel.timers.lifecycle import follow_process
from hwheel.timers.start_thread import start_thread
from hwheel.timers.uncaught import report_uncaught
from hwheel_core import RLock

BATCH_ROWS = 16_384  # taken from the queue before they are packed


class RecorderStats(NamedTuple):
    """Timers that were reported and found room; that found none; that are in files; and how many files there are."""

    recorded: int
    dropped: int
    written: int
    files: int


RecorderStats.__module__ = "hwheel.recorder"


class Leaving(Protocol):
    """What is told that the process ends, while there is still a recorder."""

    def _at_exit(self) -> None: ...


class Recorder:
    """Recorder(path, *, capacity=262_144, file_rows=1_000_000, file_seconds=60.0)

    Writes a log of timers into a directory, as Parquet files with the columns id, key, start, timeout and end: what
    `hwheel tune` reads. A context manager. Give it to a `RecordingTimer`.

    Arguments:
        path: the directory; it is made. Several recorders, also of several processes, may write into one.
        capacity: how many timers may wait to be packed. Those beyond are dropped and counted, here and in a file.
        file_rows, file_seconds: a file is written when it has so many rows, or its first has waited for so long.

    Raises:
        OSError: the directory cannot be made.
        TypeError, ValueError: a number is of the wrong type, or not positive.

    What a kill can take is what is not in a file yet: file_seconds at most. A file that cannot be written is reported
    to threading.excepthook, is the recorder's `error`, and ends the recording, not the program. A forked child does not
    record; it may make a Recorder of its own. At interpreter exit the recorder closes itself.

    Memory: 40 bytes a row of a file and some 250 bytes a row that waits: 100 MB if the disk stands still.

    Thread-safety: every method may be called from any thread.
    """

    __module__ = "hwheel.recorder"

    def __init__(
        self, path: str | Path, *, capacity: int = 262_144, file_rows: int = 1_000_000, file_seconds: float = 60.0
    ) -> None:
        for name, value in (("capacity", capacity), ("file_rows", file_rows)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an int, not {type(value).__name__}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if not file_seconds > 0:
            raise ValueError(f"file_seconds must be above 0, not {file_seconds}")
        self._writer = LogWriter(Path(path))
        self._capacity, self._file_rows, self._file_seconds = capacity, file_rows, file_seconds
        # No WeakSet, which cannot be gone through while other threads make timers or let go of them.
        self._timers: dict[weakref.ref[Leaving], None] = {}
        self._counting = RLock()  # a finalizer may come in between
        self._dropped = self._dropped_told = self._taken = self._written = 0
        self._queue: SimpleQueue[Row | None] = SimpleQueue()
        self._rows: list[Row] = []  # taken from the queue, to be packed
        self._closed = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"recorder-{Path(path).name}", daemon=True)
        follow_process(self)
        start_thread(self._thread)

    def record(self, row: Row) -> None:
        """Takes note of a timer that is over, or counts it as dropped. Never waits."""
        if self._closed or self._queue.qsize() >= self._capacity:
            with self._counting:
                self._dropped += 1
        else:
            self._queue.put(row)

    def _record_once(self, rows: dict[Any, Row], key: Any) -> None:
        """The same for rows.pop(key), if it is there: an interrupt finds it there or recorded, and not both or neither,
        because Python looks for signals at calls and in loops, and not between the `del` and what follows."""
        row = rows.get(key)
        put = self._queue.put
        if row is None:
            return
        if self._closed or self._queue.qsize() >= self._capacity:
            with self._counting:
                del rows[key]
                self._dropped += 1
        else:
            del rows[key]
            put(row)

    def stats(self) -> RecorderStats:
        """The counters. What has been recorded and is not written yet waits in memory."""
        with self._counting:
            recorded = self._taken + len(self._rows) + self._queue.qsize()
            return RecorderStats(recorded, self._dropped, self._written, self._writer.files)

    def close(self) -> None:
        """Writes what there is, and ends the thread. Closing again does nothing."""
        self._closed = True
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._queue.put(None)  # once more, if an earlier close() was interrupted
            self._thread.join()
        with self._counting:  # what was put in at the very moment of the close
            self._drop_what_waits()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recorder {'closed' if self._closed else 'open'}, {self.stats()}>"

    # --- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self._closed = True
            self.error = error
            with self._counting:  # what is in no file by now is lost
                self._dropped += self._taken - self._written + len(self._rows)
                self._taken, self._rows = self._written, []
                self._drop_what_waits()
            report_uncaught(error, threading.current_thread())

    def _write(self) -> None:
        finish_at: float | None = None  # by when the file has to be written, on the monotonic clock
        more = True
        while more:
            row, timed_out = self._next(finish_at)
            if row is not None:
                self._rows.append(row)
                if finish_at is None:
                    finish_at = time.monotonic() + self._file_seconds
            more = row is not None or timed_out
            finish = not more or timed_out or self._writer.rows + len(self._rows) >= self._file_rows
            if self._rows and (finish or len(self._rows) >= BATCH_ROWS):
                self._pack()
                # Where rows come so fast that the queue is never empty, nothing times out.
                finish = finish or (finish_at is not None and time.monotonic() >= finish_at)
            if finish and (self._writer.rows or self._dropped > self._dropped_told):
                self._finish()
                finish_at = None

    def _next(self, finish_at: float | None) -> tuple[Row | None, bool]:
        """(a row, False); (None, True): it is time for the file; (None, False): the end."""
        try:
            return self._queue.get(timeout=None if finish_at is None else max(0.0, finish_at - time.monotonic())), False
        except Empty:
            return None, True

    def _drop_what_waits(self) -> None:
        """Counts the rows in the queue as dropped: not close()'s word that there are no more."""
        while not self._queue.empty():
            self._dropped += self._queue.get() is not None

    def _pack(self) -> None:
        self._writer.add(self._rows)
        with self._counting:
            self._taken += len(self._rows)
            self._rows = []

    def _finish(self) -> None:
        rows = self._writer.rows
        dropped = self._dropped
        self._writer.finish(dropped - self._dropped_told)
        self._dropped_told = dropped
        with self._counting:
            self._written += rows

    # --- the process ---------------------------------------------------------------------------------------------

    def _follow(self, timer: Leaving) -> None:
        """The timer has its say before the recorder closes at exit."""
        self._timers[weakref.ref(timer, self._timers.pop)] = None

    def _after_fork_in_child(self) -> None:
        """The thread and the files are the parent's."""
        self._closed = True
        self._queue = SimpleQueue()
        self._thread = threading.current_thread()  # nobody to wait for

    def _at_exit(self) -> None:
        try:
            for follower in [*self._timers]:
                timer = follower()
                if timer is not None:
                    timer._at_exit()
        finally:
            self.close()
