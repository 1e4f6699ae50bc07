"""The page of ``hwheel top``, for a terminal of any width."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.segment import Segment, SegmentLines
from rich.table import Table
from rich.text import Text

from hwheel.cli.top.rates import Rates, octaves

QUIET = "dim"
LATE = "yellow"
BAR = "cyan"
HEIGHTS = " ▁▂▃▄▅▆▇█"
BLOCK = "█"
NOTHING = "-"
SIDE_BY_SIDE = 100  # from this width on, the levels are beside the lateness
MORE = 80  # the width that the table with all figures needs
MIN_WIDTH = 40
MAX_CALLBACKS = 8  # lines for the callbacks of a timer


class Page:
    """Draws snapshots on a console."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def draw(
        self,
        snapshot: Mapping[str, Any],
        rates: Mapping[str, Rates],
        address: str,
        state: str = "",
        lines: int | None = None,
    ) -> RenderableType:
        """Draw a snapshot. lines: the height of the terminal; the details of the last timers may not fit into it."""
        parts = self._parts(snapshot, rates, address, state)
        if lines is None:
            return Group(*parts)
        drawn: list[list[Segment]] = []
        for part in parts:
            drawn += self.console.render_lines(part, pad=False)
            if len(drawn) > lines:  # no more parts are drawn
                drawn[lines - 1 :] = self.console.render_lines(Text("more in a taller terminal", QUIET), pad=False)
                break
        return SegmentLines(drawn, new_lines=True)

    def _parts(
        self, snapshot: Mapping[str, Any], rates: Mapping[str, Rates], address: str, state: str
    ) -> Iterator[RenderableType]:
        """Yield the tables of all timers and purgatories, then the details of each timer."""
        head = Text.assemble((plain(snapshot["program"]), "bold"), (f"  pid {snapshot['pid']}, {address}", QUIET))
        if state:
            head.append(f"  {state}", "bold red")
        yield head
        timers, purgatories, loops = (snapshot.get(name, []) for name in ("timers", "purgatories", "loops"))
        if not timers and not purgatories and not loops:
            yield Text("The program has no timers at the moment.", QUIET)
        if timers:
            yield from ("", self._overview(timers, rates))
        if purgatories:
            yield from ("", self._purgatories(purgatories))
        for timer in timers:
            yield self._detail(timer, rates.get(timer["name"]))
        for loop in loops:
            head = Text.assemble((plain(loop["name"]), "bold"), (f"  {number(loop['pending'])} pending", QUIET))
            yield Group("", head, *self._callbacks(loop))

    @property
    def width(self) -> int:
        return max(self.console.width, MIN_WIDTH)

    # --- tables ------------------------------------------------------------------------------------------------------

    def _overview(self, timers: Sequence[Mapping[str, Any]], rates: Mapping[str, Rates]) -> Table:
        """Draw a line for each timer."""
        wide = self.width >= MORE
        heads = ["pending", "add/s", "cancel/s", "expire/s"] + ["wake/s", "due"] * wide + ["late 99%"]
        rows = []
        for timer in timers:
            now = rates.get(timer["name"])
            row = [number(timer["pending"])]
            row += [NOTHING] * 3 if now is None else [rate(now.added), rate(now.cancelled), rate(now.expired)]
            if wide:
                row += [NOTHING if now is None else rate(now.wakeups), number(timer["ready"], timer["ready_is_more"])]
            rows.append((timer["name"], [*row, ms_text(timer["lateness"]["p99_ms"])]))
        return self._table("timer", heads, rows)

    def _purgatories(self, purgatories: Sequence[Mapping[str, Any]]) -> Table:
        heads = ["delayed", "watched", "completed", "expired"] + ["purged"] * (self.width >= MORE)
        rows = [(purgatory["name"], [number(purgatory[head]) for head in heads]) for purgatory in purgatories]
        return self._table("purgatory", heads, rows)

    def _table(self, kind: str, heads: list[str], rows: list[tuple[str, list[str]]]) -> Table:
        """Draw a table of figures by name. Long names wrap if the terminal is narrow; figures do not."""
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        taken = sum(2 + max(map(len, column)) for column in zip(heads, *(row for _, row in rows), strict=True))
        room = max(self.width - taken - 2, len(kind))
        table.add_column(kind, overflow="fold", style="bold", max_width=room)
        for head in heads:
            table.add_column(head, justify="right", no_wrap=True)
        for name, row in rows:
            table.add_row(Text(plain(name)), *row)
        return table

    # --- one timer ---------------------------------------------------------------------------------------------------

    def _detail(self, timer: Mapping[str, Any], now: Rates | None) -> RenderableType:
        kind = f"{plain(timer['kind'])}, tick {ms_text(timer['tick_ms'])}, {timer['wheel_size']:,} buckets per level"
        head = Text.assemble((plain(timer["name"]), "bold"), (f"  {kind}", QUIET), overflow="fold")
        late = timer["lateness"]
        text = f"late: median {ms_text(late['p50_ms'])}, 99 % {ms_text(late['p99_ms'])}, most {ms_text(late['max_ms'])}"
        if now is not None and now.late_p50_ms is not None and now.late_p99_ms is not None:
            just_now = f"just now: median {ms_text(now.late_p50_ms)}, 99 % {ms_text(now.late_p99_ms)}"
            text += f"; {just_now}" if len(text) + 2 + len(just_now) <= self.width else f"\n      {just_now}"
        steps = octaves([(upper, count) for upper, count in late["histogram_us"]])
        body: RenderableType
        if self.width >= SIDE_BY_SIDE:
            half = self.width // 2 - 2
            body = Table.grid(padding=(0, 4, 0, 0))
            body.add_column(width=half)
            body.add_column(width=half)
            body.add_row(self._levels(timer["levels"], half), self._lateness(steps, half))
        else:
            body = Group(self._levels(timer["levels"], self.width), self._lateness(steps, self.width))
        return Group("", head, Text(text, QUIET), body, *self._callbacks(timer))

    def _callbacks(self, timer: Mapping[str, Any]) -> Iterator[RenderableType]:
        """Draw a line for each callback: the pending timers that call it."""
        found = timer.get("callbacks", [])[:MAX_CALLBACKS]
        if not found:
            return
        rows = []
        for callback in found:
            row = [number(callback["pending"]), f"{callback['share']:.0%}", ms_text(1e3 * max(callback["oldest_s"], 0))]
            row += [ms_text(1e3 * max(callback[name], 0)) for name in ("nearest_s", "farthest_s")]
            rows.append((callback_name(callback), row))
        heads = ["pending", "share", "oldest", "next in", "last in"]
        age_s = timer["census_age_s"]
        yield Text(f"callbacks{f', counted {ms_text(1e3 * age_s)} ago' if age_s >= 1 else ''}", QUIET)
        yield self._table("callback", heads, rows)

    def _levels(self, levels: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
        """Draw a line for each level: its pending timers from now on to the right."""
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, justify="right", style=QUIET)
        grid.add_column(no_wrap=True, style=BAR)
        grid.add_column(no_wrap=True, justify="right")
        counts = [number(sum(level["bars"])) for level in levels]
        room = width - max(map(len, counts), default=0) - len("level 10 to 100 min   ")
        for level, count in zip(levels, counts, strict=True):
            bars = merge_bars(level["bars"], max(room, 8))
            reach_ms = min(len(level["bars"]) * level["buckets_per_bar"] * level["tick_ms"], level["interval_ms"])
            grid.add_row(f"level {level['level']}", f"to {ms_text(reach_ms)}", self._bars(bars), count)
        return grid

    def _bars(self, counts: Sequence[int]) -> str:
        """Draw a character for each count. Only zero is blank."""
        most, steps = max(counts, default=0), len(HEIGHTS) - 1
        return "".join(HEIGHTS[math.ceil(steps * count / most) if count else 0] for count in counts)

    def _lateness(self, steps: Sequence[tuple[float, int]], width: int) -> RenderableType:
        """Draw a line for each power of two."""
        if not steps:
            return Text("nothing has expired yet", QUIET)
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True, justify="right", style=QUIET)
        grid.add_column(no_wrap=True, style=LATE)
        grid.add_column(no_wrap=True, justify="right")
        most = max(count for _, count in steps)
        room = max(8, width - len("to 0.512 ms  ") - len(number(most)) - 1)
        for upper_ms, count in steps:
            bar = BLOCK * math.ceil(room * count / most)
            grid.add_row(f"to {ms_text(upper_ms)}", bar.ljust(room), number(count))
        return grid


def callback_name(callback: Mapping[str, Any]) -> str:
    """Format the place of a callback.

    >>> callback_name({"module": "app.server", "qualname": "Session.ping", "line": 12, "owner": "app.Web"})
    'app.server:12 Session.ping of Web'
    """
    line = "" if callback["line"] is None else f":{callback['line']}"
    owner = (callback["owner"] or "").rpartition(".")[2]
    of_owner = f" of {owner}" if owner and f"{owner}." not in callback["qualname"] else ""
    return f"{callback['module']}{line} {callback['qualname']}{of_owner}"


def merge_bars(bars: Sequence[int], room: int) -> list[int]:
    """Add up neighbors so that at most ``room`` bars remain."""
    each = -(-len(bars) // room)
    return [sum(bars[at : at + each]) for at in range(0, len(bars), each)]


def plain(text: str) -> str:
    """Replace control characters in a name, which comes from another program."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def number(count: int, is_more: bool = False) -> str:
    """Format a count.

    >>> number(1234567), number(512, True)
    ('1,234,567', '512+')
    """
    return f"{count:,}{'+' if is_more else ''}"


def rate(a_second: float) -> str:
    """Format a rate per second.

    >>> [rate(one) for one in (0, 0.123, 5, 1234.5)]
    ['0', '0.12', '5', '1,234']
    """
    return f"{a_second:,.0f}" if a_second >= 10 or a_second == 0 else f"{a_second:.2g}"


def ms_text(ms: float) -> str:
    """Format a duration with two significant digits, or as an integer from 100.

    >>> [ms_text(ms) for ms in (0, 0.128, 0.0421, 16.384, 512, 30720, 262144, 7.2e7, 8.64e8)]
    ['0 ms', '0.13 ms', '0.042 ms', '16 ms', '512 ms', '31 s', '4.4 min', '20 h', '10 d']
    """
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= length:
            return f"{figures(ms / length)} {unit}"
    return f"{figures(ms)} ms"


def figures(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
