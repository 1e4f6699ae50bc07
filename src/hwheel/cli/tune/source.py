"""The ways in which ``hwheel tune`` replays a log: on one wheel, file by file, or on Spark."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from hwheel.cli.common import spark_session
from hwheel.logs.columns import LogColumns
from hwheel.logs.files import files_of, read_file, read_files, rows_of
from hwheel.tune.study import Grid, Study, study

Replay = Callable[[Grid, bool], Study]  # (grid, whether to compute curves)
# (activity, total or None) shows the progress of an activity, and returns the function that advances it.
Begin = Callable[[str, int | None], Callable[..., object]]


def show_nothing(activity: str, total: int | None) -> Callable[..., object]:
    return lambda count=1: None


@contextmanager
def open_source(options: argparse.Namespace, columns: LogColumns, begin: Begin) -> Iterator[Replay]:
    """Yield a function that replays the log on a grid. Raise LogError for a bad log."""
    if options.spark:
        begin("starting Spark", None)
        with spark_session(options):
            yield partial(on_spark, options, columns, begin)
    elif options.per_file:
        yield partial(file_by_file, files_of(options.log), columns, begin)
    else:
        yield on_one_wheel(files_of(options.log), columns, begin)


def on_one_wheel(files: list[str], columns: LogColumns, begin: Begin) -> Replay:
    """Read the whole log into memory. Return the function that replays it."""
    count = rows_of(files, columns)
    log, dropped = read_files(files, columns, begin("reading", count), count)

    def replay(grid: Grid, curves: bool) -> Study:
        on_point = begin("replaying", len(grid))
        return Study.merged([study(log, grid, curves=curves, dropped=dropped, on_point=on_point)])

    return replay


def file_by_file(files: list[str], columns: LogColumns, begin: Begin, grid: Grid, curves: bool) -> Study:
    """Replay each file on its own wheel, with one file in memory at a time."""
    on_point = begin("replaying", len(grid) * len(files))
    parts = []
    for file in files:
        log, dropped = read_file(file, columns)
        parts.append(study(log, grid, curves=curves, dropped=dropped, on_point=on_point))
    return Study.merged(parts)


def on_spark(options: argparse.Namespace, columns: LogColumns, begin: Begin, grid: Grid, curves: bool) -> Study:
    """Replay the log on the active Spark session."""
    from hwheel.spark.replay import replay

    begin("replaying on Spark", None)
    return replay(
        options.log,
        start=columns.start,
        timeout=columns.timeout,
        end=columns.end,
        ticks=grid.ticks,
        wheel_sizes=grid.wheel_sizes,
        timeouts=grid.timeouts,
        curves=curves,
        key=options.key,
        wheels=options.wheels,
    )
