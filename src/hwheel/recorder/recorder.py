"""The recorder: a queue of ended timers, and a thread that writes them to files."""

import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple, Self

from hwheel.recorder.log_writer import LogWriter, Row
from hwheel.timers.lifecycle import follow_process
from hwheel_core import RLock, report_uncaught

BATCH_ROWS = 16_384  # rows that are taken from the queue before they are packed


class RecorderStats(NamedTuple):
    """The counters of a Recorder.

    Attributes:
        recorded: Timers that entered the queue.
        dropped: Timers for which the queue had no room, or which were lost in an error.
        written: Timers in files.
        files: Files.
    """

    recorded: int
    dropped: int
    written: int
    files: int


RecorderStats.__module__ = "hwheel.recorder"


class Recorder:
    """Recorder(path, *, capacity=262_144, file_rows=1_000_000, file_seconds=60.0)

    Write a log of timers into a directory, for ``hwheel tune`` and ``hwheel.replay``.

    The files are Parquet, with the columns id, key, start, timeout, and end. Pass the recorder to a
    ``RecordingTimer``. It is a context manager, and closes itself at interpreter exit.

    Args:
        path: The directory, which is created. Several recorders, also of several processes, can share it.
        capacity: The maximum number of timers in the queue. Further timers are dropped and counted.
        file_rows: Write a file when it has this many rows.
        file_seconds: Write a file when its first row is this old.

    Attributes:
        error: The exception that ended the recording, or None.

    Raises:
        OSError: The directory cannot be created.
        TypeError, ValueError: A number has the wrong type, or is not positive.

    A kill loses the rows that are not in a file yet: at most those of ``file_seconds``. If a file cannot be written,
    the recorder reports the error to ``threading.excepthook`` and stops recording; the program continues. A forked
    child does not record, but can create its own Recorder.

    Memory: 40 bytes per row of a file, and about 250 bytes per queued row: 100 MB if the disk blocks. Thread-safe.
    """

    __module__ = "hwheel.recorder"

    def __init__(
        self, path: str | Path, *, capacity: int = 262_144, file_rows: int = 1_000_000, file_seconds: float = 60.0
    ) -> None:
        for name, value in (("capacity", capacity), ("file_rows", file_rows)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an int, got {type(value).__name__}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not file_seconds > 0:
            raise ValueError(f"file_seconds must be above 0, got {file_seconds}")
        self._writer = LogWriter(Path(path))
        self._capacity, self._file_rows, self._file_seconds = capacity, file_rows, file_seconds
        self._counting = RLock()  # reentrant, because a finalizer can interrupt its owner
        self._dropped = self._dropped_in_files = self._packed = self._written = 0
        # put() of a SimpleQueue is reentrant: finalizers and signal handlers can cancel timers.
        self._queue: SimpleQueue[Row | None] = SimpleQueue()
        self._rows: list[Row] = []  # taken from the queue, but not packed yet
        self._closed = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"recorder-{Path(path).name}", daemon=True)
        follow_process(self)
        self._thread.start()

    def record(self, row: Row) -> None:
        """Add an ended timer to the queue, or count it as dropped. Never blocks.

        Example:
            >>> from hwheel.recorder import Recorder, RecordingTimer
            >>> with Recorder("log") as recorder, RecordingTimer(recorder) as timer:
            ...     timer.call_later(30, print, "no answer").cancel()  # calls recorder.record()
            True
            >>> recorder.stats().recorded
            1
        """
        if self._closed or self._queue.qsize() >= self._capacity:
            with self._counting:
                self._dropped += 1
        else:
            self._queue.put(row)

    def stats(self) -> RecorderStats:
        """Return the counters. Rows that are recorded but not written are in memory.

        Example:
            >>> from hwheel.recorder import Recorder, RecordingTimer
            >>> with Recorder("log") as recorder, RecordingTimer(recorder) as timer:
            ...     timer.call_later(30, print, "no answer").cancel()
            True
            >>> recorder.stats()
            RecorderStats(recorded=1, dropped=0, written=1, files=1)
        """
        with self._counting:
            recorded = self._packed + len(self._rows) + self._queue.qsize()
            return RecorderStats(recorded, self._dropped, self._written, self._writer.files)

    def close(self) -> None:
        """Write the remaining rows and end the thread. Idempotent.

        Example:
            >>> from hwheel.recorder import Recorder
            >>> recorder = Recorder("log")
            >>> recorder.close()
            >>> recorder.stats().files
            0
        """
        self._closed = True
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._queue.put(None)  # a further None if an earlier close() was interrupted
            self._thread.join()
        with self._counting:  # a concurrent record() can add a row after the thread has ended
            self._drop_queued()

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
            with self._counting:  # rows that are in no file are lost
                self._dropped += self._packed - self._written + len(self._rows)
                self._packed, self._rows = self._written, []
                self._drop_queued()
            report_uncaught(error, threading.current_thread())

    def _write(self) -> None:
        finish_at: float | None = None  # the deadline of the current file on the monotonic clock
        is_open = True
        while is_open:
            row, timed_out = self._next(finish_at)
            if row is not None:
                self._rows.append(row)
                if finish_at is None:
                    finish_at = time.monotonic() + self._file_seconds
            is_open = row is not None or timed_out
            finish = not is_open or timed_out or self._writer.rows + len(self._rows) >= self._file_rows
            if self._rows and (finish or len(self._rows) >= BATCH_ROWS):
                self._pack()
                # If rows arrive so fast that the queue is never empty, get() never times out.
                finish = finish or (finish_at is not None and time.monotonic() >= finish_at)
            if finish and (self._writer.rows or self._dropped > self._dropped_in_files):
                self._finish()
                finish_at = None

    def _next(self, finish_at: float | None) -> tuple[Row | None, bool]:
        """Return (row, False), or (None, True) when the file is due, or (None, False) after close()."""
        try:
            return self._queue.get(timeout=None if finish_at is None else max(0.0, finish_at - time.monotonic())), False
        except Empty:
            return None, True

    def _drop_queued(self) -> None:
        """Count the queued rows as dropped. A None from close() is not a row."""
        while not self._queue.empty():
            self._dropped += self._queue.get() is not None

    def _pack(self) -> None:
        self._writer.add(self._rows)
        with self._counting:
            self._packed += len(self._rows)
            self._rows = []

    def _finish(self) -> None:
        rows = self._writer.rows
        dropped = self._dropped
        self._writer.finish(dropped - self._dropped_in_files)
        self._dropped_in_files = dropped
        with self._counting:
            self._written += rows

    # --- the process ---------------------------------------------------------------------------------------------

    def _after_fork_in_child(self) -> None:
        """Close without waiting: the thread and the files belong to the parent."""
        self._closed = True
        self._queue = SimpleQueue()
        self._thread = threading.current_thread()

    def _at_exit(self) -> None:
        """Close. The timers of this recorder are newer, so they have recorded their pending tasks by now."""
        self.close()
