"""The progress bar, the tables, and the recommendation of ``hwheel tune``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from hwheel.cli.tune.source import Begin
from hwheel.replay.costs import ReplayCosts
from hwheel.tune.advice import Advice
from hwheel.tune.report import COLUMNS, cells, headline, what_if_text
from hwheel.tune.study import Study
from hwheel.tune.units import ms_text

CHOSEN = "bold cyan"


@contextmanager
def progress_bar() -> Iterator[Begin]:
    """Show a progress bar on standard error if that is a terminal, and remove it at the end."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description:>18}"), BarColumn(bar_width=None), TextColumn("{task.percentage:>3.0f} %")
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as progress:

        def begin(activity: str, total: int | None) -> Callable[..., object]:
            for task in progress.task_ids:
                progress.remove_task(task)
            return partial(progress.advance, progress.add_task(activity, total=total))

        yield begin


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
