"""Recorded timers, the limits of the queue, files, errors of the disk, and the end of the process."""

import contextvars
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from hwheel import TimerFull, TimerTask
from hwheel.recorder import Recorder, RecordingTimer
from hwheel.recorder.log_writer import LogWriter, Row
from hwheel.replay import CANCELLED, FIRED, Log
from sampling import search_settings


def table_of(directory):
    """Return all files of a log as one table, in order of the ids."""
    return pa.concat_tables(map(pq.read_table, sorted(directory.glob("*.parquet")))).sort_by("id")


def log_of(table):
    return Log(*(table[name].combine_chunks() for name in ("start", "timeout", "end")))


user = contextvars.ContextVar("user")


class HandClock:
    ms = 1_000_000

    def __call__(self):
        return self.ms


steps = st.lists(
    st.tuples(st.just("start"), st.integers(-3, 60) | st.integers(0, 5000))
    | st.tuples(st.sampled_from(["cancel", "reschedule"]), st.integers(0, 100))
    | st.tuples(st.just("wait"), st.integers(0, 40) | st.integers(0, 3000)),
    max_size=60,
)


@search_settings(40, suppress_health_check=[*HealthCheck])
@given(steps=steps, tick_ms=st.integers(1, 30))
def test_a_replay_of_the_log_has_the_same_outcomes(tmp_path_factory, steps, tick_ms):
    directory = tmp_path_factory.mktemp("log")
    clock = HandClock()
    outcomes = []  # (outcome, ms)
    tasks = []
    with Recorder(directory) as recorder:
        timer = RecordingTimer(recorder, tick_ms=tick_ms, wheel_size=8, clock=clock, reaper=False, executor="inline")
        for what, number in steps:
            if what == "start":
                tasks.append(timer.call_later(number / 1000, lambda: outcomes.append((FIRED, clock.ms))))
            elif what == "wait":
                for _ in range(number):
                    clock.ms += 1
                    while timer.advance_clock(0):
                        pass
            elif tasks:
                task = tasks[number % len(tasks)]
                if task.cancel() if what == "cancel" else task.reschedule(number / 1000):
                    outcomes.append((CANCELLED, clock.ms))
            while timer.advance_clock(0):
                pass
        outcomes += [(CANCELLED, clock.ms)] * len(timer.close())
        stats = timer.stats()
    assert recorder.stats()[:3] == (len(outcomes), 0, len(outcomes))
    if outcomes:
        found = log_of(table_of(directory)).replay(tick_ms=tick_ms, wheel_size=8)
        assert sorted(zip(found.outcomes.tolist(), found.at_ms.tolist(), strict=True)) == sorted(outcomes)
        assert found.costs.fired == stats.expired
    else:
        assert list(directory.iterdir()) == []


def test_the_columns_of_a_row(tmp_path, hand_clock):
    with (
        Recorder(tmp_path / "new" / "log") as recorder,
        RecordingTimer(
            recorder, clock=hand_clock, reaper=False, executor="inline", key=lambda callback, args: args[0]
        ) as timer,
    ):
        timer.call_later(0.25, print, "search")
        at = timer.call_at(1000.5, print, "pay")
        hand_clock.ms += 100
        at.cancel()
    assert table_of(tmp_path / "new" / "log").to_pylist() == [
        {"id": 0, "key": "pay", "start": 1_000_000, "timeout": 500, "end": 1_000_100},
        {"id": 1, "key": "search", "start": 1_000_000, "timeout": 250, "end": 1_000_100},
    ]


def test_slack_is_part_of_the_timeout_and_a_missed_task_has_expired(tmp_path, hand_clock):
    missed = []
    with (
        Recorder(tmp_path) as recorder,
        RecordingTimer(
            recorder, clock=hand_clock, reaper=False, executor="inline", on_missed=missed.append, key=lambda *call: None
        ) as timer,
    ):
        put_off = timer.call_later(0.25, print, slack=0.1)
        late = timer.call_at(1000.020, print, max_lateness=0.5)
        assert put_off.deadline_ms == 1_000_320
        assert timer.call_later(5, print, slack=0.1).reschedule(1)
        hand_clock.ms += 600
        timer.advance_clock(0)
        assert missed == [late]
    rows = [{name: row[name] for name in ("start", "timeout", "end")} for row in table_of(tmp_path).to_pylist()]
    assert sorted(rows, key=lambda row: row["timeout"]) == [
        {"start": 1_000_000, "timeout": 20, "end": None},
        {"start": 1_000_000, "timeout": 320, "end": None},
        {"start": 1_000_000, "timeout": 1088, "end": 1_000_600},
        {"start": 1_000_000, "timeout": 5056, "end": 1_000_000},
    ]


def test_times_are_ms_since_1970_and_default_keys_are_names_of_callbacks(tmp_path):
    before = time.time() * 1000
    with Recorder(tmp_path) as recorder, RecordingTimer(recorder, tick_ms=10) as timer:
        timer.call_later(60, "".join, []).cancel()
    [row] = table_of(tmp_path).to_pylist()
    assert before - 20 <= row["start"] <= row["end"] <= time.time() * 1000 + 20
    assert (row["key"], row["timeout"]) == ("str.join", 60_000)


def test_a_callback_with_a_context_runs_in_it_and_keeps_its_key(tmp_path):
    context, ran = contextvars.copy_context(), threading.Event()
    context.run(user.set, "the adder")
    seen = []

    def callback():
        seen.append(user.get())
        ran.set()

    with Recorder(tmp_path) as recorder, RecordingTimer(recorder) as timer:
        timer.call_later(0.01, callback, context=context)
        assert ran.wait(60)
        for wrong in (0, "main"):
            with pytest.raises(TypeError, match="contextvars.Context"):
                timer.call_at(5, callback, context=wrong)
    assert seen == ["the adder"]
    [key] = table_of(tmp_path)["key"].to_pylist()
    assert key.endswith(".callback")


def test_many_threads_lose_no_timer(tmp_path, many_switches):
    fired = threading.Semaphore(0)
    cancels = []

    def work(number):
        mine = [timer.call_later(0.001 * (index % 7), fired.release) for index in range(500)]
        cancels.extend(task for task in mine[::2] if task.cancel())
        for task in mine[1::4]:
            task.reschedule(number / 1000)

    with Recorder(tmp_path, file_rows=700) as recorder:
        with RecordingTimer(recorder) as timer:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        stats = timer.stats()
    table = table_of(tmp_path)
    ends = table["end"].to_pylist()
    assert recorder.stats().dropped == 0 and recorder.stats().files == len(list(tmp_path.glob("*.parquet"))) > 3
    assert table["id"].to_pylist() == list(range(len(table)))
    assert ends.count(None) == stats.expired
    assert len(cancels) == stats.cancelled and stats.added == 3000
    # The others were cancelled or returned by close(). Each reschedule adds a row.
    assert len(ends) - ends.count(None) >= 3000 - stats.expired


class BlockedDisk:
    """Blocks the writer until `proceed` is set."""

    def __init__(self, monkeypatch):
        self.proceed = threading.Event()
        self.reached = threading.Event()
        finish = LogWriter.finish

        def wait(writer, dropped):
            self.reached.set()
            assert self.proceed.wait(60)
            finish(writer, dropped)

        monkeypatch.setattr(LogWriter, "finish", wait)


def test_beyond_the_capacity_rows_are_dropped_without_blocking(tmp_path, monkeypatch):
    disk = BlockedDisk(monkeypatch)
    with Recorder(tmp_path, capacity=10, file_rows=1) as recorder:
        with RecordingTimer(recorder) as timer:
            timer.call_later(60, print).cancel()
            assert disk.reached.wait(60)  # the writer blocks with the first row
            for _ in range(100):
                timer.call_later(60, print).cancel()
            assert recorder.stats()[:3] == (11, 90, 0)
        disk.proceed.set()
    assert recorder.stats()[:3] == (11, 90, 11)
    files = sorted(tmp_path.glob("*.parquet"))
    dropped = [int(pq.read_schema(file).metadata[b"hwheel.dropped"]) for file in files]
    assert len(table_of(tmp_path)) == 11 and sum(dropped) == 90


def test_repr(tmp_path):
    with Recorder(tmp_path) as recorder:
        assert repr(recorder) == f"<Recorder open, {recorder.stats()}>"
    assert repr(recorder) == f"<Recorder closed, {recorder.stats()}>"


def test_a_failed_reschedule_leaves_the_row_unchanged(tmp_path, hand_clock):
    with Recorder(tmp_path) as recorder:
        timer = RecordingTimer(recorder, clock=hand_clock, executor="inline", reaper=False)
        task = timer.call_later(1, int)
        with pytest.raises(OverflowError):
            task.reschedule(1e300)
        hand_clock.ms += 1000
        timer.advance_clock(0)
        timer.close()
    assert task.expired and table_of(tmp_path)["timeout"].to_pylist() == [1000]


def test_a_file_is_written_after_file_seconds(tmp_path, eventually):
    with Recorder(tmp_path, file_seconds=0.05) as recorder:
        recorder.record(Row("a", 0, 1, 0))
        eventually(lambda: recorder.stats().files == 1, "a file")
        assert len(table_of(tmp_path)) == 1
        recorder.record(Row(None, 5, 1, None))
        eventually(lambda: recorder.stats().files == 2, "another file")
    assert [row["key"] for row in table_of(tmp_path).to_pylist()] == ["a", None]


def test_drops_after_the_last_file_are_counted_in_another_file(tmp_path, eventually):
    with Recorder(tmp_path, file_rows=1) as recorder:
        recorder.record(Row("a", 0, 1, 0))
        eventually(lambda: recorder.stats().files == 1, "a file")
        recorder._capacity = 0
        recorder.record(Row("b", 0, 1, 0))
    dropped = [int(pq.read_schema(file).metadata[b"hwheel.dropped"]) for file in tmp_path.glob("*.parquet")]
    assert sorted(dropped) == [0, 1] and len(table_of(tmp_path)) == 1


def test_readers_do_not_see_an_unfinished_file(tmp_path, monkeypatch):
    write_table, seen = pq.write_table, []

    def write_and_list(table, path, **options):
        write_table(table, path, **options)
        seen.append([*tmp_path.glob("*.parquet")])

    monkeypatch.setattr("hwheel.recorder.log_writer.pq.write_table", write_and_list)
    with Recorder(tmp_path) as recorder:
        recorder.record(Row("a", 0, 1, 0))
    assert seen == [[]] and len(table_of(tmp_path)) == 1


def test_when_the_disk_fails_queued_rows_are_counted_as_dropped(tmp_path, monkeypatch, eventually):
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    writes, is_full = threading.Event(), threading.Event()

    def fail(writer, dropped):
        writes.set()
        is_full.wait(60)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogWriter, "finish", fail)
    recorder = Recorder(tmp_path, file_rows=1)
    recorder.record(Row("a", 0, 1, 0))
    assert writes.wait(60)
    for key in "bc":
        recorder.record(Row(key, 0, 1, 0))
    closing = threading.Thread(target=recorder.close)
    closing.start()
    eventually(lambda: recorder._queue.qsize() == 3, "two rows and the None of close()")
    is_full.set()
    closing.join(60)
    assert recorder.stats()[:3] == (0, 3, 0)


def test_the_log_is_shifted_by_whole_ticks(tmp_path):
    with Recorder(tmp_path) as recorder, RecordingTimer(recorder, tick_ms=60_000) as timer:
        task = timer.call_later(5, print)
        deadline_ms = task.deadline_ms
        task.cancel()
    [row] = table_of(tmp_path).to_pylist()
    assert (row["start"] + row["timeout"] - deadline_ms) % 60_000 == 0


def test_two_recorders_share_a_directory(tmp_path):
    with Recorder(tmp_path) as one, Recorder(tmp_path) as other:
        one.record(Row("a", 0, 1, 0))
        other.record(Row("b", 0, 1, 0))
    assert len(list(tmp_path.glob("*.parquet"))) == 2


def test_a_disk_error_ends_the_recording_but_not_the_timer(tmp_path, monkeypatch):
    reported = []
    monkeypatch.setattr(threading, "excepthook", reported.append)

    def fail(writer, dropped):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogWriter, "finish", fail)
    with Recorder(tmp_path, file_rows=1) as recorder, RecordingTimer(recorder) as timer:
        timer.call_later(60, print).cancel()
        recorder._thread.join(60)
        ran = threading.Event()
        timer.call_later(0, ran.set)
        assert ran.wait(60)
    assert [report.exc_type for report in reported] == [OSError] and recorder.error is reported[0].exc_value
    assert recorder.stats() == (0, 2, 0, 0)


def test_call_later_raises_the_same_errors_as_systemtimer(tmp_path):
    with Recorder(tmp_path) as recorder, RecordingTimer(recorder, max_pending=1) as timer:
        for delay, error in (("1", TypeError), (True, TypeError), (None, TypeError), (float("nan"), ValueError)):
            with pytest.raises(error):
                timer.call_later(delay, print)
        with pytest.raises(TypeError, match="callback"):
            timer.call_later(1, None)
        task = timer.call_later(60, print)
        with pytest.raises(TimerFull):
            timer.call_later(60, print)
        with pytest.raises(ValueError, match="create a new one"):
            timer.add(task)
        assert task.cancel() and not task.cancel() and not task.reschedule(0.005)
        assert timer.call_later(1.1, print).delay_ms == 1100
    assert recorder.stats().recorded == 2


def test_methods_that_are_not_recorded_work(tmp_path):
    ran = threading.Barrier(3)
    with Recorder(tmp_path) as recorder, RecordingTimer(recorder, executor=ThreadPoolExecutor(2)) as timer:
        timer.add(TimerTask(0, ran.wait))
        timer.call_many(pa.array([0]), lambda due: ran.wait())
        ran.wait(60)
        timer.call_every(0.001, print).cancel()
    assert recorder.stats().recorded == 0


def test_bad_arguments(tmp_path):
    bad = (({"capacity": 0}, ValueError), ({"file_rows": 1.5}, TypeError), ({"file_seconds": 0}, ValueError))
    for options, error in bad:
        with pytest.raises(error):
            Recorder(tmp_path / "never", **options)
    assert not (tmp_path / "never").exists()
    with Recorder(tmp_path) as recorder:
        with pytest.raises(ValueError, match="ProcessPoolExecutor"), ProcessPoolExecutor(1) as executor:
            RecordingTimer(recorder, executor=executor)
        with pytest.raises(TypeError, match="key must be callable"):
            RecordingTimer(recorder, key="x")
    with pytest.raises(TypeError, match="must be a Recorder"):
        RecordingTimer(str(tmp_path))


def test_exit_without_a_close(tmp_path, run_script):
    code, _, errors = run_script(f"""
from hwheel.recorder import Recorder, RecordingTimer
recorder = Recorder({str(tmp_path / "log")!r})
timer = RecordingTimer(recorder)
ran = threading.Event()
timer.call_later(0, ran.set)
timer.call_later(3600, print).cancel()
pending = timer.call_later(3600, print)
ran.wait(60)
""")
    assert (code, errors) == (0, "")
    rows = table_of(tmp_path / "log").to_pylist()
    assert sorted(row["timeout"] for row in rows) == [0, 3_600_000, 3_600_000]
    assert [row["end"] is None for row in rows].count(True) == 1


def test_a_forked_child_does_not_write_to_the_log_of_its_parent(tmp_path, run_script):
    code, _, errors = run_script(f"""
from hwheel.recorder import Recorder, RecordingTimer
def child():
    kept.cancel()
    timer.call_later(0, int)
    timer.close()
    recorder.close()
    with Recorder({str(tmp_path / "child")!r}) as own, RecordingTimer(own) as other:
        other.call_later(7, print).cancel()

with Recorder({str(tmp_path / "parent")!r}) as recorder, RecordingTimer(recorder, fork="keep") as timer:
    kept = timer.call_later(3600, print)
    timer.call_later(5, print).cancel()
    for _ in range(5):
        in_child(child)
    timer.call_later(6, print).cancel()
""")
    assert (code, errors) == (0, "")
    assert sorted(table_of(tmp_path / "parent")["timeout"].to_pylist()) == [5000, 6000, 3_600_000]
    assert table_of(tmp_path / "child")["timeout"].to_pylist() == [7000] * 5


def test_a_kill_leaves_only_complete_files(tmp_path):
    script = f"""
from hwheel.recorder import Recorder, RecordingTimer
recorder = Recorder({str(tmp_path)!r}, file_rows=2000)
timer = RecordingTimer(recorder)
while True:
    timer.call_later(60, print).cancel()
    if recorder.stats().files >= 5:
        print("five", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-P", "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "five\n"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    files = sorted(tmp_path.glob("*.parquet"))
    assert len(files) >= 5
    for file in files:
        assert len(pq.read_table(file)) >= 2000


def test_the_tune_command_reads_the_log(tmp_path, capsys):
    from hwheel.cli.main import main

    with Recorder(tmp_path) as recorder, RecordingTimer(recorder) as timer:
        for _ in range(10):
            timer.call_later(60, print).cancel()
    assert main(["tune", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["timers"] == 10
