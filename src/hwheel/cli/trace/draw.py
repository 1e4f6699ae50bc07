"""A trace as text and tables: the adds in one table, then the wheel after the adds and after each poll."""

from collections.abc import Iterable, Iterator

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from hwheel.cli.trace.steps import Json

DUE = "bold green"
QUIET = "dim"
INTRODUCTION = """
A bucket holds the tasks of one time span. When the span begins, the bucket
leaves the delay queue, and its tasks expire or move to a finer level."""


def draw_trace(trace: Json, console: Console) -> None:
    """Print the trace. Times are in milliseconds."""
    for part in parts_of(trace):
        console.print(part)


def parts_of(trace: Json) -> Iterator[RenderableType]:
    """Yield the trace from top to bottom."""
    title = f"{trace['wheel_size']} buckets per level, tick {trace['tick_ms']} ms, start {trace['start_ms']} ms"
    yield Text.assemble((title, "bold"), INTRODUCTION)
    adds = [step for step in trace["steps"] if step["step"] == "add"]
    polls = [step for step in trace["steps"] if step["step"] == "poll"]
    yield from rule(f"adding {counted(len(adds), 'task')}")
    yield ""
    yield table_of_adds(trace["tasks"], adds)
    if adds:
        yield from rule(f"after {counted(len(adds), 'add')}: {adds[-1]['time_ms']} ms")
        yield from state_of(adds[-1])
    for number, step in enumerate(polls, 1):
        yield from rule(f"advance {number} of {len(polls)}: {step['time_ms']} ms")
        yield from events_of(step, trace["tasks"])
        yield from state_of(step)
    yield Text(f"\nNothing is pending after {counted(len(polls), 'advance')}. Levels are kept.", style=QUIET)


def rule(title: str) -> Iterable[RenderableType]:
    return "", Rule(Text(title, "bold"), align="left", style=QUIET)


def table_of(**columns: str) -> Table:
    """Return a table with these headers, each with its alignment."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=True)
    for header, justify in columns.items():
        table.add_column(header.replace("_", " "), justify=justify)  # type: ignore[arg-type]
    return table


def table_of_adds(tasks: list[Json], adds: list[Json]) -> Table:
    table = table_of(task="right", delay="right", due_at="right", goes_to="left", which_covers="left")
    levels = 1
    for task, step in zip(tasks, adds, strict=True):
        for level in step["levels"][levels:]:
            created, clock = f"level {level['level']} is created", f"its clock: {level['current_time_ms']} ms"
            table.add_row("", "", "", Text(created, "magenta"), Text(clock, "magenta"))
        levels = len(step["levels"])
        target: tuple[RenderableType, str] = Text("due at once", DUE), ""
        for move in step["moved"]:
            begin_ms = move["to"]["expiration_ms"]
            end_ms = begin_ms + step["levels"][move["to"]["level"] - 1]["tick_ms"]
            target = place(move["to"]), f"{begin_ms} to {end_ms} ms"
        table.add_row(str(task["task"]), f"{task['delay_ms']} ms", f"{task['expiration_ms']} ms", *target)
    return table


def events_of(step: Json, tasks: list[Json]) -> Iterator[RenderableType]:
    """Yield the tasks that expired or moved."""
    for number in step["due"]:
        due_at = f"  {tasks[number - 1]['expiration_ms']} ms"
        yield Padding(Text.assemble((f"task {number} is due", DUE), (due_at, QUIET)), (0, 1))
    for move in step["moved"]:
        text = f"task {move['task']} moves from {place(move['from'])} to "
        yield Padding(Text.assemble(text, (place(move["to"]), "cyan")), (0, 1))


def state_of(step: Json) -> Iterator[RenderableType]:
    """Yield the levels and the delay queue after a step."""
    levels = table_of(
        level="right", tick="right", interval="right", clock="right", bucket="right", expires_at="right", tasks="left"
    )
    for level in step["levels"]:
        times = (f"{level[name]} ms" for name in ("tick_ms", "interval_ms", "current_time_ms"))
        head = [str(level["level"]), *times]
        if not level["buckets"]:
            levels.add_row(*head, "", Text("all empty", QUIET), "")
        for bucket in sorted(level["buckets"], key=lambda bucket: bucket["expiration_ms"]):
            tasks = Text(", ".join(map(str, bucket["tasks"])), "cyan")
            levels.add_row(*head, str(bucket["bucket"]), f"{bucket['expiration_ms']} ms", tasks)
            head = [""] * len(head)
    yield ""
    yield levels
    # No-break spaces, so that lines break between buckets.
    queue = " → ".join(
        f"{bucket['expiration_ms']} (level {bucket['level']})".replace(" ", "\u00a0") for bucket in step["queue"]
    )
    line = Table.grid(padding=(0, 1))
    line.add_row(Text(" delay queue:", "bold", no_wrap=True), queue or Text("empty", QUIET))
    yield ""
    yield line


def place(found: Json) -> str:
    return f"level {found['level']} bucket {found['bucket']}"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
