"""A KeyboardInterrupt at any line of a RecordingTimer's methods: the log matches the state of the timer."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hwheel.recorder import Recorder, RecordingTimer
from interrupts import interrupt_each_line
from threads import call_in_thread

FILES = ("recorder/recording_timer.py", "recorder/recorder.py")


class Log:
    """A recorder, and a timer with a manual clock."""

    def __init__(self, directory, hand_clock):
        self.directory = directory
        self.clock = hand_clock
        self.recorder = Recorder(directory)
        self.timer = RecordingTimer(
            self.recorder, clock=hand_clock, reaper=False, executor="inline", key=lambda callback, args: args[0]
        )

    def expire(self, ms):
        self.clock.ms += ms
        while self.timer.advance_clock(0):
            pass

    def rows(self):
        """Close the log, and return (key, timeout, end since the start of the test or None) of each row, sorted."""
        self.timer.close()
        self.recorder.close()
        assert self.recorder.error is None
        stats = self.recorder.stats()
        files = sorted(self.directory.glob("*.parquet"))
        assert len(files) == stats.files and not [*self.directory.glob(".*")]
        table = pa.concat_tables(map(pq.read_table, files)).sort_by("id").to_pylist() if files else []
        assert (stats.recorded, stats.dropped, stats.written) == (len(table), 0, len(table))
        assert [row["id"] for row in table] == [*range(len(table))]
        assert all(row["end"] is None or row["end"] >= row["start"] for row in table)
        rows = [(row["key"], row["timeout"], row["end"] and row["end"] - 1_000_000) for row in table]
        return sorted(rows, key=str)


@pytest.fixture
def logs(tmp_path, hand_clock):
    """Return a function that creates a log with its own files."""
    made = []

    def make():
        hand_clock.ms = 1_000_000
        made.append(Log(tmp_path / str(len(made)), hand_clock))
        return made[-1]

    yield make
    while made:
        log = made.pop()
        log.timer.close()
        log.recorder.close()
    del log


@pytest.mark.parametrize("method", ["call_later", "call_at"])
def test_a_start(logs, method):
    def scenario():
        log = logs()
        ran = []

        def start():
            return getattr(log.timer, method)(1 if method == "call_later" else 1001, ran.append, "a")

        task = yield start
        left = log.timer.pending()
        assert len(left) == len(log.timer) and (task is None or left == [task])
        call_in_thread(start)  # a retry
        log.expire(2000)
        assert ran == ["a"] * (len(left) + 1)
        assert log.rows() == [("a", 1000, None)] * len(ran)

    assert interrupt_each_line(scenario, FILES) > 5


@pytest.mark.parametrize("then", ["again", "nothing", "expire", "close"])
def test_a_cancel(logs, then):
    def scenario():
        log = logs()
        ran = []
        task = log.timer.call_later(1, ran.append, "a")
        log.clock.ms += 100
        cancelled = yield task.cancel
        was_cancelled = task.cancelled
        assert was_cancelled == (len(log.timer) == 0)
        assert cancelled is None or was_cancelled
        if then == "again":
            assert call_in_thread(task.cancel) == (not was_cancelled)
        elif then == "expire":
            log.expire(2000)
        elif then == "close":
            assert log.timer.close() == ([] if was_cancelled else [task])
        log.timer.close()
        expired = then == "expire" and not was_cancelled
        assert ran == ["a"] * expired
        assert log.rows() == [("a", 1000, None if expired else 100)]

    assert interrupt_each_line(scenario, FILES) > 5


@pytest.mark.parametrize("then", ["again", "cancel", "expire", "close"])
def test_a_reschedule(logs, then):
    def scenario():
        log = logs()
        ran = []
        task = log.timer.call_later(1, ran.append, "a")
        log.clock.ms += 100
        answer = yield lambda: task.reschedule(5)
        assert not task.cancelled and log.timer.pending() == [task]
        was_moved = task.delay_ms == 5000
        assert was_moved or answer is None
        expected = [("a", 1000, 100)] if was_moved else []
        log.clock.ms += 100
        if then == "again":
            assert call_in_thread(lambda: task.reschedule(7))
            expected.append(("a", 5000 if was_moved else 1000, 200))
            log.expire(7000)
            expected.append(("a", 7000, None))
        elif then == "expire":
            log.expire(5000)
            expected.append(("a", 5000 if was_moved else 1000, None))
        else:
            assert call_in_thread(task.cancel if then == "cancel" else log.timer.close)
            expected.append(("a", 5000 if was_moved else 1000, 200))
        assert ran == ["a"] * (then in ("again", "expire"))
        assert log.rows() == sorted(expected, key=str)

    assert interrupt_each_line(scenario, FILES) > 5
