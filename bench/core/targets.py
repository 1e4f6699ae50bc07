"""The targets of the core, and the figures of a run."""

from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from lib.cell import Cell, ratios, spread
from lib.table import figure

PAIR = "add + cancel"
CALLED = "expire, Python callback"
FLOOR = "empty call that makes a TimerTask"
FLOOR_OF_PAIR = "a clock, two locks, an object"
BARE = "bare heappush + mark"
LOOK = "a look at the handle"
AT_MOST, AT_LEAST = "at most", "at least"

Row = tuple[str, list[float], str, float, str]  # name, a figure per round, unit, target, AT_MOST or AT_LEAST


def show(result: dict[str, Any], console: Console, *, judged: bool) -> None:
    """Print the measured figures. judged=False: the targets are for more timers than were measured."""
    title = "what the core is held to" if judged else "what the core is held to, with more timers than here"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("", "minimum", "median", "maximum", "", "aim"):
        table.add_column(name, justify="left" if not name or name == "aim" else "right", no_wrap=True)
    for what, values, unit, aim, sense in rows(result):
        low, middle, high = spread(values)
        met = middle <= aim if sense == AT_MOST else middle >= aim
        verdict = f"{sense} {aim:g}{'' if met or not judged else ', missed'}"
        table.add_row(what, figure(low), figure(middle), figure(high), unit, verdict)
    console.print(table)


def rows(result: dict[str, Any]) -> Iterator[Row]:
    """Return the figures that the measured parts contain."""
    for part, of_part in PARTS.items():
        if part in result:
            yield from of_part(result[part])


def of_operations(part: dict[str, Any]) -> Iterator[Row]:
    cells = {(cell["operation"], cell["implementation"], cell["pending"]): Cell(**cell) for cell in part["cells"]}
    # The largest size of the peers.
    size = max((size for operation, name, size in cells if (operation, name) == (PAIR, "asyncio")), default=0)
    for what, one, other, aim, sense in (
        (f"{PAIR}, {size:,} pending: hwheel / {FLOOR}", "hwheel", FLOOR, 2.5, AT_MOST),
        (f"the same: hwheel / {FLOOR_OF_PAIR}", "hwheel", FLOOR_OF_PAIR, 1.25, AT_MOST),
        ("the same: asyncio / hwheel", "asyncio", "hwheel", 15, AT_LEAST),
        ("the same: uvloop / hwheel", "uvloop", "hwheel", 10, AT_LEAST),
        (f"the same: {BARE} / hwheel", BARE, "hwheel", 5, AT_LEAST),
    ):
        places = (PAIR, one, size), (PAIR, other, size)
        if all(place in cells for place in places):
            yield what, ratios(*(cells[place] for place in places)), "times", aim, sense
    for operation, aim in (("add", 110), (PAIR, 80)):
        if (operation, "hwheel", size) in cells:
            yield f"{operation}, {size:,}", cells[operation, "hwheel", size].ns, "ns a timer", aim, AT_MOST
    places = ("cancel", "hwheel", size), ("cancel", LOOK, size)
    if all(place in cells for place in places):
        looks = ratios(*(cells[place] for place in places))
        yield f"cancel in random order, {size:,}: hwheel / {LOOK}", looks, "times", 2, AT_MOST
    for operation, aim in (("bulk add", 10), ("bulk cancel", 15), ("bulk expire", 60)):
        if (operation, "hwheel bulk", size) in cells:
            yield f"{operation}, {size:,}", cells[operation, "hwheel bulk", size].ns, "ns a timer", aim, AT_MOST
    for order in ("time", "adds"):
        places = (CALLED, "hwheel", size), (CALLED, f"bare loop, in order of {order}", size)
        if all(place in cells for place in places):
            above = [one - bare for one, bare in zip(*(cells[place].ns for place in places), strict=True)]
            yield f"{CALLED}, {size:,}: above a bare loop in order of {order}", above, "ns a timer", 100, AT_MOST
    yield from of_growth(cells)


def of_growth(cells: dict[tuple[str, str, int], Cell]) -> Iterator[Row]:
    few = 10_000
    for operation, name, aim in (
        ("add", "hwheel", 2.0),
        ("cancel", "hwheel", 2.0),
        ("expire", "hwheel", 2.5),
        ("bulk add", "hwheel bulk", 2.0),
        ("bulk cancel", "hwheel bulk", 2.0),
        ("bulk expire", "hwheel bulk", 2.5),
    ):
        many = max((size for one, who, size in cells if (one, who) == (operation, name)), default=0)
        if many > few and (operation, name, few) in cells:
            growth = ratios(cells[operation, name, many], cells[operation, name, few])
            yield f"{operation}, {many:,} pending / {few:,}", growth, "times", aim, AT_MOST


def of_wheel_sizes(part: list[dict[str, Any]]) -> Iterator[Row]:
    for row in part:
        if row["wheel_size"] == 20:
            yield "bulk expire, wheel size 20", row["bulk_expire_ns"], "ns a timer", 80, AT_MOST


def of_memory(part: list[dict[str, Any]]) -> Iterator[Row]:
    for row in part:
        if row["implementation"] == "hwheel":
            yield "a TimerTask without its callback, sys.getsizeof", [row["handle_bytes"]], "bytes", 112, AT_MOST
            more = row["collect_with_ms"] / row["collect_without_ms"]
            yield f"gc.collect(), {row['timers']:,} pending / none", [more], "times", 1.2, AT_MOST
        if row["implementation"] == "hwheel bulk":
            yield "a bulk timer, allocated", [row["allocated_bytes"]], "bytes", 56, AT_MOST


def of_pause(part: dict[str, Any]) -> Iterator[Row]:
    if not part["during_us"]["count"]:
        return
    p999_ms = part["during_us"]["p99.9"] / 1e3
    yield f"p99.9 of an add while {part['entries']:,} entries cascade", [p999_ms], "ms", 1, AT_MOST


def of_lateness(part: list[dict[str, Any]]) -> Iterator[Row]:
    p99 = {row["implementation"]: row["p99_ms"] for row in part if not row["busy"]}
    if "hwheel" in p99:
        yield "p99 of lateness, otherwise idle", p99["hwheel"], "ms", 2, AT_MOST
        ratios = [theirs / ours for theirs, ours in zip(p99["asyncio"], p99["hwheel"], strict=True)]
        yield "the same, asyncio / hwheel", ratios, "times", 1, AT_LEAST


def of_idle(part: dict[str, Any]) -> Iterator[Row]:
    yield f"wake-ups in {part['seconds']:g} s, {part['tasks']:,} far-off tasks", [part["wakeups"]], "", 0, AT_MOST


def of_containers(part: dict[str, Any]) -> Iterator[Row]:
    cells = {(cell["operation"], cell["implementation"]): Cell(**cell) for cell in part["cells"]}
    peer, ours = "cachetools.TTLCache", "hwheel.ExpiringDict"
    if peer in part["bytes"]:
        for operation in ("set a new key", "touch"):
            times = ratios(cells[operation, peer], cells[operation, ours])
            yield f"ExpiringDict, {operation}: {peer} / ours", times, "times", 3, AT_LEAST
    looks = [one["longest_look_ms"] for one in part["expiry"][ours]]
    yield f"ExpiringDict, longest look while {part['entries']:,} entries expire", looks, "ms", 2, AT_MOST


PARTS: dict[str, Callable[[Any], Iterator[Row]]] = {
    "operations": of_operations,
    "wheel_sizes": of_wheel_sizes,
    "memory": of_memory,
    "pause": of_pause,
    "lateness": of_lateness,
    "idle": of_idle,
    "containers": of_containers,
}
