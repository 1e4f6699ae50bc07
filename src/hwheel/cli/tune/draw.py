"""The progress bar, the tables, and the recommendation of ``hwheel tune``."""

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


class ProgressBar:
    """A progress bar on standard error if that is a terminal. A context manager that removes the bar at the end."""

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

    def __enter__(self) -> "ProgressBar":
        self.progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.progress.stop()

    def begin(self, activity: str, total: int | None) -> None:
        """Replace the bar. total: None if the amount of work is unknown."""
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(activity, total=total)

    def advance(self, count: int = 1) -> None:
        assert self.task is not None
        self.progress.advance(self.task, count)


def print_study(study: Study, advice: Advice, what_if: list[ReplayCosts], files: list[Path]) -> None:
    """Print the tables and the recommendation."""
    console = Console(highlight=False)
    console.print(headline(study, advice))
    if study.dropped:
        console.print(f"The log lacks {study.dropped:,} timers that the recorder dropped.", style="bold red")
    chosen = advice.costs
    same_size = [costs for costs in study.costs if costs.wheel_size == chosen.wheel_size]
    console.print(table(f"ticks, with wheel size {chosen.wheel_size:,}", same_size, chosen))
    same_tick = [costs for costs in study.costs if costs.tick_ms == chosen.tick_ms]
    console.print(table(f"wheel sizes, with a tick of {ms_text(chosen.tick_ms)}", same_tick, chosen))
    choice = f"Choose a tick of {ms_text(chosen.tick_ms)} and a wheel size of {chosen.wheel_size:,}."
    console.print(Text(choice, style=CHOSEN))
    for reason in advice.reasons:
        console.print(f"  - {reason}")
    for costs in what_if:
        console.print(what_if_text(costs))
    if files:
        console.print(f"The report is in {files[0]}", soft_wrap=True)


def table(title: str, rows: list[ReplayCosts], chosen: ReplayCosts) -> Table:
    """Return a table with the chosen row highlighted."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", title_style="bold")
    for column in COLUMNS:
        made.add_column(column, justify="right")
    for costs in rows:
        # No-break spaces, so that no cell wraps.
        row = [cell.replace(" ", "\u00a0") for cell in cells(costs)]
        made.add_row(*row, style=CHOSEN if costs is chosen else "")
    return made
