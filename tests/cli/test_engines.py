"""The same workload on each engine, and what a pending timer takes there."""

import time
from contextlib import closing
from functools import partial

import pytest

from hwheel.cli.demo.account import account
from hwheel.cli.demo.drive import drive
from hwheel.cli.demo.engines import AsyncioEngine, SchedEngine, ThreadsEngine, WheelEngine
from hwheel.cli.demo.memory import bytes_a_timer
from hwheel.cli.demo.outcome import lateness_of, outcome_of
from hwheel.cli.demo.workload import Request, made_up, workload_of

ENGINES = {"wheel": partial(WheelEngine, 1, 256), "asyncio": AsyncioEngine, "sched": SchedEngine}


@pytest.mark.parametrize("make_engine", ENGINES.values(), ids=ENGINES)
def test_every_timer_of_a_small_workload_is_accounted_for(make_engine):
    workload = workload_of(made_up(200, 1000.0, 0.5, (200.0, 300.0), seed=3))
    reports = []
    with closing(make_engine()) as engine:
        run = drive(engine, workload, reports.append)
    found = account(run.deadlines, run.runs, run.cancels)
    assert (found.timers, found.lost, found.doubled) == (200, 0, 0)
    assert found.ran >= 100  # more only where the machine was so slow that a completion came too late
    assert reports[-1] == (200, found.cancelled, found.ran)
    assert run.adding_s > 0 and run.cancelling_s > 0 and run.cancel_calls == 100
    assert 0 < run.peak_pending <= 200


def test_threads_take_part():
    workload = workload_of(made_up(20, 200.0, 0.5, (100.0, 200.0), seed=3))
    with closing(ThreadsEngine()) as engine:
        run = drive(engine, workload)
    assert len(run.runs) >= 10
    assert not any(thread.is_alive() for thread in engine.threads)


@pytest.mark.parametrize("make_engine", ENGINES.values(), ids=ENGINES)
def test_a_completion_after_the_timeout_comes_too_late(make_engine):
    workload = workload_of([Request(0, 20, 300), Request(0, 5_000, 10)])
    with closing(make_engine()) as engine:
        run = drive(engine, workload)
    assert [index for index, _ in run.runs] == [0]
    assert run.cancels == [1]


def test_requests_that_end_as_they_start_are_cancelled():
    workload = workload_of([Request(start, 1000, start) for start in (0, 0, 5, 5)])
    with closing(WheelEngine(1, 256)) as engine:
        run = drive(engine, workload)
    assert run.runs == [] and run.cancels == [0, 1, 2, 3]


def test_a_driver_that_has_fallen_behind_cancels_nobody_before_it_was_added():
    workload = workload_of([Request(0, 30_000, 5 - index / 1000) for index in range(5_000)])
    with closing(WheelEngine(1, 256)) as engine:
        run = drive(engine, workload)
    assert run.runs == [] and sorted(run.cancels) == [*range(5_000)]


def test_a_close_drops_what_is_pending():
    runs = []
    for make_engine in [*ENGINES.values(), ThreadsEngine]:
        engine = make_engine()
        engine.call_at(time.monotonic() + 0.05, runs.append, 0)
        engine.close()
    time.sleep(0.1)
    assert runs == []


def test_memory_a_timer_counts_the_task_and_no_more_than_it_may_take():
    assert 48 < bytes_a_timer(ENGINES["wheel"], 5_000) < 200
    assert bytes_a_timer(AsyncioEngine, 1_000) > 100
    assert bytes_a_timer(ThreadsEngine, 20) > 500


def test_lateness_is_by_nearest_rank():
    workload = workload_of([Request(0, 1, None)])
    with closing(WheelEngine(1, 256)) as engine:
        run = drive(engine, workload)
    doctored = run._replace(deadlines=[0.0] * 200, runs=[(i, (i + 1) / 1000) for i in range(200)])
    assert lateness_of(doctored) == pytest.approx((100, 198, 200))
    assert lateness_of(doctored._replace(runs=[])) is None
    assert outcome_of(doctored._replace(cancel_calls=0), 1.0, 0.0).cancels_a_second is None
