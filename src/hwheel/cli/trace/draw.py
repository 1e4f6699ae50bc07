"""A trace as text and tables: the adds in one table, then the wheel after the adds and after each poll."""

from collections.abc import Iterable
from datetime import timedelta

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from hwheel.cli.trace.clock_time import clock_time
from hwheel.cli.trace.steps import Bucket, Place, Snapshot, Step, Trace

DUE = "bold green"
QUIET = "dim"


def draw_trace(trace: Trace, offset: timedelta | None, console: Console) -> None:
    """Print the trace. offset: the time zone of clock times; None: print milliseconds only."""
    drawing = Drawing(trace, offset)
    for part in drawing.parts():
        console.print(part)


class Drawing:
    """The renderables of a trace."""

    def __init__(self, trace: Trace, offset: timedelta | None) -> None:
        self.trace = trace
        self.offset = offset

    def parts(self) -> Iterable[RenderableType]:
        """Yield the trace from top to bottom."""
        start, *rest = self.trace.steps
        adds = [step for step in rest if step.kind == "add"]
        polls = [step for step in rest if step.kind == "poll"]
        yield self._head()
        yield self._step("start", start)
        yield self._adds(adds)
        if adds:
            yield self._step(f"after {_count(len(adds), 'add')}", adds[-1], with_moves=False)
        for number, step in enumerate(polls, 1):
            yield self._step(f"advance {number} of {len(polls)}", step)
        yield Text(f"\nNothing is pending after {_count(len(polls), 'advance')}. Levels are kept.", style=QUIET)

    def _head(self) -> RenderableType:
        trace = self.trace
        title = f"{trace.wheel_size} buckets per level, tick {trace.tick_ms} ms, start {self._both(trace.start_ms)}"
        return Text.assemble(
            (title, "bold"),
            "\nA bucket holds the tasks of one time span. When the span begins, the bucket leaves the delay queue, and "
            "its tasks expire or move to a finer level.",
        )

    def _step(self, title: str, step: Step, with_moves: bool = True) -> RenderableType:
        parts: list[RenderableType] = [_rule(f"{title}: {self._both(step.time_ms)}")]
        if with_moves:
            parts += self._what_happened(step)
        parts += ["", self._levels(step.snapshot), ""]
        parts.append(self._queue(step.snapshot))
        return Group(*parts)

    def _adds(self, adds: list[Step]) -> RenderableType:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=True)
        table.add_column("task", justify="right")
        table.add_column("delay", justify="right")
        table.add_column("due at")
        table.add_column("goes to")
        table.add_column("which covers")
        levels = 1
        for task, step in zip(self.trace.tasks, adds, strict=True):
            for level in step.snapshot.levels[levels:]:
                table.add_row(
                    "",
                    "",
                    "",
                    Text(f"level {level.level} is created", "magenta"),
                    Text(f"its clock: {self._short(level.current_time_ms)}", "magenta"),
                )
            levels = len(step.snapshot.levels)
            target: tuple[RenderableType, ...] = (Text("due at once", DUE), "")
            for move in step.moved:
                target = (_place(move.target), self._span(move.target, step.snapshot))
            table.add_row(str(task.number), f"{task.delay_ms} ms", self._time(task.expiration_ms), *target)
        return Group(_rule(f"adding {_count(len(adds), 'task')}"), "", table)

    def _what_happened(self, step: Step) -> list[RenderableType]:
        lines = Text()
        for number in step.due:
            lines.append(f"task {number} is due", DUE)
            lines.append(f"  {self._both(self.trace.tasks[number - 1].expiration_ms)}\n", QUIET)
        for move in step.moved:
            lines.append(f"task {move.task} moves ")
            if move.origin is not None:
                lines.append(f"from {_place(move.origin)} ")
            lines.append(f"to {_place(move.target)}\n", "cyan")
        lines.rstrip()
        return [Padding(lines, (0, 0, 0, 1))] if lines else []

    def _levels(self, snapshot: Snapshot) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=True)
        table.add_column("level", justify="right")
        table.add_column("tick", justify="right")
        table.add_column("interval", justify="right")
        table.add_column("clock")
        table.add_column("bucket", justify="right")
        table.add_column("expires at")
        table.add_column("tasks")
        for level in snapshot.levels:
            head = (
                str(level.level),
                f"{level.tick_ms} ms",
                f"{level.interval_ms} ms",
                self._time(level.current_time_ms),
            )
            if not level.buckets:
                table.add_row(*head, "", Text("all empty", QUIET), "")
            for bucket in sorted(level.buckets, key=lambda bucket: bucket.place.expiration_ms):
                due_at = self._time(bucket.place.expiration_ms)
                table.add_row(*head, str(bucket.place.bucket), due_at, Text(_tasks(bucket), "cyan"))
                head = ("", "", "", "")
        return table

    def _queue(self, snapshot: Snapshot) -> Table:
        line = Table.grid(padding=(0, 1))
        line.add_column(no_wrap=True)
        line.add_column()
        if snapshot.queue:
            # No-break spaces, so that lines break between buckets.
            entries = [
                f"{self._short(place.expiration_ms)}\N{NO-BREAK SPACE}(level\N{NO-BREAK SPACE}{place.level})"
                for place, _ in snapshot.queue
            ]
            line.add_row(Text(" delay queue:", "bold"), " → ".join(entries))
        else:
            line.add_row(Text(" delay queue:", "bold"), Text("empty", QUIET))
        return line

    def _span(self, place: Place, snapshot: Snapshot) -> str:
        end_ms = place.expiration_ms + snapshot.levels[place.level - 1].tick_ms
        return f"{self._short(place.expiration_ms)} to {self._short(end_ms)}"

    def _time(self, time_ms: int) -> str:
        """Format a time for a column, which can break between the time of day and the milliseconds."""
        return f"{time_ms} ms" if self.offset is None else f"{clock_time(time_ms, self.offset)} {time_ms}"

    def _both(self, time_ms: int) -> str:
        """Format a time for a line of text."""
        return f"{time_ms} ms" if self.offset is None else f"{clock_time(time_ms, self.offset)} ({time_ms} ms)"

    def _short(self, time_ms: int) -> str:
        return str(time_ms) if self.offset is None else clock_time(time_ms, self.offset)


def _rule(title: str) -> RenderableType:
    return Group("", Rule(Text(title, "bold"), align="left", style=QUIET))


def _place(place: Place) -> str:
    return f"level {place.level} bucket {place.bucket}"


def _tasks(bucket: Bucket) -> str:
    return ", ".join(map(str, bucket.tasks))


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
