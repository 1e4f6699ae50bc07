"""`hwheel demo` for people: progress, the table, and the verdict."""

from collections.abc import Callable

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from hwheel.cli.demo import drive
from hwheel.cli.demo.account import Account
from hwheel.cli.demo.outcome import Outcome

BEST = "bold cyan"
NOTHING = "-"


class Board:
    """The live display: a line for each engine. A context manager.

    It is redrawn only when somebody reports, in the thread of who does: a thread of rich's own would take the
    interpreter away from the callbacks at any time.
    """

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description:>15}", style="bold"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[figures]}"),
            console=console,
            auto_refresh=False,
            expand=True,
        )

    def __enter__(self) -> "Board":
        self.progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.progress.stop()

    def line(self, name: str, timers: int) -> Callable[[drive.Progress], None]:
        """A new line. Returns what draws a report on it."""
        task = self.progress.add_task(name, total=timers, figures="")

        def report(reached: drive.Progress) -> None:
            self._draw(task, reached)

        return report

    def _draw(self, task: TaskID, reached: drive.Progress) -> None:
        over = reached.cancelled + reached.expired
        pending = reached.started - over
        self.progress.update(
            task,
            completed=over,
            figures=f"{pending:>7,} pending {reached.cancelled:>9,} cancelled {reached.expired:>7,} expired",
        )
        self.progress.refresh()


def draw_outcomes(outcomes: list[Outcome], tick_ms: int, console: Console) -> None:
    """The table: a column for each engine, hwheel's first, and how to read it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.engine, justify="right", header_style=BEST if outcome is outcomes[0] else "bold")
    rows: list[tuple[str, Callable[[Outcome], str]]] = [
        ("timers", lambda outcome: f"{outcome.timers:,}"),
        ("speed", lambda outcome: f"{outcome.speed:,.3g}x"),
        ("pending at most", lambda outcome: f"{outcome.peak_pending:,}"),
        ("timers a second", lambda outcome: _rate(outcome.adds_a_second)),
        ("cancels a second", lambda outcome: _rate(outcome.cancels_a_second)),
        ("achieved rate a second", lambda outcome: _rate(outcome.achieved_rate)),
        ("cancelled", lambda outcome: f"{outcome.cancelled:,}"),
        ("expired", lambda outcome: f"{outcome.expired:,}"),
        ("lateness p50", lambda outcome: _ms(outcome, "p50")),
        ("lateness p99", lambda outcome: _ms(outcome, "p99")),
        ("lateness max", lambda outcome: _ms(outcome, "max")),
        ("memory a timer", lambda outcome: f"{outcome.bytes_a_timer:,.0f} B"),
    ]
    if len(outcomes) == 1 or all(outcome.speed == 1 for outcome in outcomes):
        rows = [row for row in rows if row[0] != "speed"]
    for name, figure in rows:
        table.add_row(name, *map(figure, outcomes))
    console.print(table)
    for note in notes(outcomes, tick_ms):
        console.print(Text(note, style="dim"))


def notes(outcomes: list[Outcome], tick_ms: int) -> list[str]:
    """How the figures are to be read."""
    said = [
        "timers and cancels a second: calls by the time spent in them, one after the other.",
        "lateness: from the deadline to the callback, as the callback saw it. The wheel rounds a deadline up to its "
        f"tick of {tick_ms} ms, so that nothing is early: half a tick late is what it aims at.",
        "memory a timer: all that Python and the core allocate for a pending one (tracemalloc), without the callback"
        + (", and without the stack of threading.Timer's thread." if len(outcomes) > 1 else "."),
    ]
    full, *peers = outcomes
    if any(peer.timers < full.timers or peer.speed != full.speed for peer in peers):
        said.append(
            f"The peers had an even sample of the {full.timers:,} requests, as many as they can bear, with all times "
            "shortened (speed) so that each takes about a second. Fewer timers pending flatter them."
        )
    return said


def draw_account(account: Account, console: Console) -> None:
    """The verdict on hwheel's run."""
    console.print()
    console.print(
        Text.assemble(
            f"{account.timers:,} timers: {account.cancelled:,} cancelled, {account.ran:,} ran; ",
            (
                f"lost {account.lost:,}, doubled {account.doubled:,}, early {account.early:,}",
                "bold green" if account.is_clean else "bold red",
            ),
        )
    )


def _rate(rate: float | None) -> str:
    if rate is None:
        return NOTHING
    if rate >= 10_000:
        rate = round(rate, -2)  # what is beyond three figures is noise
    return f"{rate:,.0f}"


def _ms(outcome: Outcome, name: str) -> str:
    return NOTHING if outcome.lateness is None else f"{getattr(outcome.lateness, name):.2f} ms"
