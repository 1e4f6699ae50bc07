"""`hwheel tune` for people: how far it is, the tables, and what to choose."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hwheel.replay.costs import ReplayCosts
from hwheel.tune.advice import Advice
from hwheel.tune.report import COLUMNS, cells, headline, what_if_text
from hwheel.tune.study import Study
from hwheel.tune.units import ms_text

CHOSEN = "bold cyan"


class Board:
    """A bar on standard error, if that is a terminal, for what is going on; gone at the end. A context manager."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description:>18}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task: TaskID | None = None

    def __enter__(self) -> "Board":
        self.progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.progress.stop()

    def begin(self, what: str, total: int | None) -> None:
        """A new bar; total None: nobody knows how long it takes."""
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(what, total=total)

    def advance(self, count: int = 1) -> None:
        assert self.task is not None
        self.progress.advance(self.task, count)


def show(study: Study, advice: Advice, what_if: list[ReplayCosts], files: list[Path]) -> None:
    """Writes everything to standard output."""
    console = Console(highlight=False)
    console.print(headline(study, advice))
    if study.dropped:
        console.print(f"The recorder had no room for {study.dropped:,} timers: they are missing.", style="bold red")
    chosen = advice.costs
    for title, picked in (
        (
            f"ticks, with wheel size {chosen.wheel_size:,}",
            [one for one in study.costs if one.wheel_size == chosen.wheel_size],
        ),
        (
            f"wheel sizes, with a tick of {ms_text(chosen.tick_ms)}",
            [one for one in study.costs if one.tick_ms == chosen.tick_ms],
        ),
    ):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", title_style="bold")
        for column in COLUMNS:
            table.add_column(column, justify="right")
        for costs in picked:
            # No spaces to break a cell at.
            row = [cell.replace(" ", "\u00a0") for cell in cells(costs)]
            table.add_row(*row, style=CHOSEN if costs is chosen else "")
        console.print(table)
    choice = f"Choose a tick of {ms_text(chosen.tick_ms)} and a wheel size of {chosen.wheel_size:,}."
    console.print(Text(choice, style=CHOSEN))
    for reason in advice.reasons:
        console.print(f"  - {reason}")
    for costs in what_if:
        console.print(what_if_text(costs))
    if files:
        console.print(f"The report is in {files[0]}", soft_wrap=True)
