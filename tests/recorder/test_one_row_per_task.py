"""Each task gives one row, regardless of what its user, its executor, and close() do with it."""

import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hwheel.recorder import Recorder, RecordingTimer


@pytest.fixture
def recorder(tmp_path):
    with Recorder(tmp_path) as recorder:
        yield recorder


@pytest.fixture
def rows(recorder, tmp_path):
    """Return a function that closes the recorder and returns (key, whether it expired) of each row, in order."""

    def read():
        recorder.close()
        files = sorted(tmp_path.glob("*.parquet"))
        table = pa.concat_tables(map(pq.read_table, files)).sort_by("id").to_pylist() if files else []
        return [(row["key"], row["end"] is None) for row in table]

    return read


@pytest.fixture
def gate():
    event = threading.Event()
    yield event
    event.set()


def manual_timer(recorder, hand_clock, **options):
    options = {"reaper": False, "executor": "inline", "key": lambda callback, args: str(args[0])} | options
    return RecordingTimer(recorder, clock=hand_clock, on_error=lambda *_: None, **options)


def test_a_task_that_close_returned_is_cancelled_even_if_the_user_runs_it(recorder, rows, hand_clock):
    ran = []
    timer = manual_timer(recorder, hand_clock)
    for name in "ab":
        timer.call_later(60, ran.append, name)
    for task in timer.close():
        task.run()
        with pytest.raises(RuntimeError):
            task.run()
        assert not task.cancel()
    assert ran == ["a", "b"] and rows() == [("a", False), ("b", False)]


def test_a_task_that_the_user_runs_before_its_deadline_has_not_expired(recorder, rows, hand_clock):
    ran = []
    with manual_timer(recorder, hand_clock) as timer:
        cancelled, expires, left = (timer.call_later(1, ran.append, name) for name in ("cancelled", "expires", "left"))
        for task in cancelled, expires, left:
            task.run()
            task.run()
        assert left.reschedule(60)
        assert cancelled.cancel() and not cancelled.cancel()
        hand_clock.ms += 2000
        while timer.advance_clock(0):
            pass
        with pytest.raises(RuntimeError):
            expires.run()
        assert not expires.cancel()
    assert len(ran) == 7
    assert rows() == [("left", False), ("cancelled", False), ("expires", True), ("left", False)]


class RefusingExecutor(Executor):
    def submit(self, *_, **__):
        raise RuntimeError("no more")


class CancellingExecutor(Executor):
    def submit(self, *_, **__):
        future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


class RepeatingExecutor(Executor):
    def submit(self, function, /, *args, **kwargs):
        for _ in range(2):
            function(*args, **kwargs)
        future = Future()
        future.set_result(None)
        return future


@pytest.mark.parametrize("executor", [RefusingExecutor, CancellingExecutor, RepeatingExecutor])
def test_a_task_expires_once_even_if_the_executor_misbehaves(recorder, rows, hand_clock, executor):
    with manual_timer(recorder, hand_clock, executor=executor()) as timer:
        timer.call_later(1, int, 7)
        hand_clock.ms += 2000
        while timer.advance_clock(0):
            pass
    assert timer.stats().expired == 1
    assert rows() == [("7", True)]


def test_close_while_the_pool_is_busy(recorder, rows, hand_clock, gate):
    with ThreadPoolExecutor(1) as pool:
        timer = manual_timer(recorder, hand_clock, executor=pool, key=lambda callback, args: callback.__name__)
        timer.call_later(1, gate.wait, 60)
        timer.call_later(1, gate.is_set)
        hand_clock.ms += 2000
        while timer.advance_clock(0):
            pass
        [task] = timer.close(run_pending=True, timeout=0.05)
        task.run()
        gate.set()
    assert sorted(rows()) == [("is_set", False), ("wait", True)]


def test_an_interrupted_close_of_the_recorder_can_be_repeated(recorder, tmp_path, monkeypatch):
    thread = recorder._thread

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            recorder.close()
    recorder.close()
    assert not thread.is_alive() and recorder.stats() == (0, 0, 0, 0)


def test_a_negative_delay_is_recorded_as_a_timeout_of_zero(recorder, hand_clock, tmp_path):
    with manual_timer(recorder, hand_clock) as timer:
        timer.call_later(-5, print, "")
        timer.advance_clock(0)
    recorder.close()
    (row,) = pa.concat_tables(map(pq.read_table, tmp_path.glob("*.parquet"))).to_pylist()
    assert row["timeout"] == 0
