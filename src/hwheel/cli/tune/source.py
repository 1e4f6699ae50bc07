"""The ways in which ``hwheel tune`` replays a log: on one wheel, file by file, or on Spark."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from hwheel.cli.common import settings_of, spark_errors
from hwheel.logs.columns import LogColumns
from hwheel.logs.files import files_of, read_file, read_files, rows_of
from hwheel.tune.study import Grid, Study, study

Replay = Callable[[Grid, bool], Study]  # (grid, whether to compute curves)


class Progress(Protocol):
    """The interface of a progress display."""

    def begin(self, activity: str, total: int | None) -> None: ...
    def advance(self, count: int = 1) -> None: ...


class NoProgress:
    """A progress display that shows nothing."""

    def begin(self, activity: str, total: int | None) -> None:
        pass

    def advance(self, count: int = 1) -> None:
        pass


def open_source(options: argparse.Namespace, columns: LogColumns, progress: Progress) -> AbstractContextManager[Replay]:
    """Return a function that replays the log on a grid. Raise LogError for a bad log."""
    if options.spark:
        return on_spark(options, columns, progress)
    files = files_of(options.log)
    return file_by_file(files, columns, progress) if options.per_file else on_one_wheel(files, columns, progress)


@contextmanager
def on_one_wheel(files: list[str], columns: LogColumns, progress: Progress) -> Iterator[Replay]:
    """Read the whole log into memory once."""
    count = rows_of(files, columns)
    progress.begin("reading", count)
    log, dropped = read_files(files, columns, progress.advance, count)

    def replay(grid: Grid, curves: bool) -> Study:
        progress.begin("replaying", len(grid))
        return Study.merged([study(log, grid, curves=curves, dropped=dropped, on_point=progress.advance)])

    yield replay


@contextmanager
def file_by_file(files: list[str], columns: LogColumns, progress: Progress) -> Iterator[Replay]:
    """Hold one file in memory at a time."""

    def replay(grid: Grid, curves: bool) -> Study:
        progress.begin("replaying", len(grid) * len(files))
        parts = []
        for file in files:
            log, dropped = read_file(file, columns)
            parts.append(study(log, grid, curves=curves, dropped=dropped, on_point=progress.advance))
        return Study.merged(parts)

    yield replay


@contextmanager
def on_spark(options: argparse.Namespace, columns: LogColumns, progress: Progress) -> Iterator[Replay]:
    """Use a new Spark session, or that of spark-submit."""
    settings = settings_of(options.conf)
    with spark_errors():
        from hwheel.spark.replay import replay as replay_on_spark
        from hwheel.spark.session.local import make_session

        progress.begin("starting Spark", None)
        spark = make_session(options.master, settings, quiet=not options.verbose)
        try:

            def replay(grid: Grid, curves: bool) -> Study:
                progress.begin("replaying on Spark", None)
                return replay_on_spark(
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

            yield replay
        finally:
            spark.stop()
