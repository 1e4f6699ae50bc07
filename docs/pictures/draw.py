"""Draws the pictures of docs/how_it_works.md from snapshots of a real wheel: `python docs/pictures/draw.py`.

What a picture shows is what `TimingWheel.snapshot()` says, so that no picture shows a wheel that there is not; and it
is the same bytes each time, so that a test can hold the files against the wheel. Each has a background of its own,
because the page around it may be light or dark whatever the reader's system says.
"""

from pathlib import Path
from xml.sax.saxutils import escape

from hwheel import TimerTask, TimingWheel
from hwheel.types import WheelSnapshot

HERE = Path(__file__).parent
WHEEL_SIZE = 8
CELL, ROW, LEFT, WIDTH = 84, 46, 150, 850
STYLE = """\
  svg { font: 14px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
  .paper { fill: #ffffff; stroke: #d0d7de }
  .cell { fill: #f6f8fa; stroke: #afb8c1 }
  .held { fill: #ddf0ff; stroke: #0969da }
  .now { fill: none; stroke: #bc4c00; stroke-width: 3 }
  text { fill: #1f2328 }
  .faint { fill: #59636e; font-size: 12px }
  .head { font-weight: 600 }
  .task { font-weight: 600; font-size: 15px }
  .new { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; stroke: #3d444d }
    .cell { fill: #161b22; stroke: #565f69 }
    .held { fill: #12365f; stroke: #58a6ff }
    .now { stroke: #f0883e }
    text { fill: #f0f6fc }
    .faint { fill: #b1bac4 }
    .new { fill: #f0883e }
  }
"""


class Drawing:
    """Lines of SVG, from the top down."""

    def __init__(self, about: str) -> None:
        self.about = about
        self.lines: list[str] = []
        self.y = 16

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """Words at a place."""
        self.lines.append(f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """A bucket, or the mark around one."""
        self.lines.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{kind}"/>')

    def say(self, words: str, kind: str = "") -> None:
        """A line of text below what is there."""
        self.y += 18
        self.text(16, self.y, words, kind)

    def svg(self) -> str:
        """The picture."""
        size = f'width="{WIDTH}" height="{self.y + 20}" viewBox="0 0 {WIDTH} {self.y + 20}"'
        paper = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{self.y + 19}" rx="8" class="paper"/>'
        body = "\n".join([paper, *self.lines])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<title>{escape(self.about)}</title>\n'
            f"<style>\n{STYLE}</style>\n{body}\n</svg>\n"
        )


def span(begin_ms: int, tick_ms: int) -> str:
    """The times of a bucket."""
    return f"{begin_ms}" if tick_ms == 1 else f"{begin_ms}–{begin_ms + tick_ms - 1}"


def draw_levels(drawing: Drawing, snapshot: WheelSnapshot, names: dict[TimerTask, str], new: str = "") -> None:
    """A row a level, finest first; each bucket with its times and its tasks, one of which is in another colour."""
    for number, level in enumerate(snapshot.levels, start=1):
        top = drawing.y + 18
        drawing.text(16, top + 18, f"level {number}", "head")
        drawing.text(16, top + 36, f"tick {level.tick_ms} ms", "faint")
        held = {bucket.index: bucket for bucket in level.buckets}
        current = level.current_time_ms // level.tick_ms
        for index in range(WHEEL_SIZE):
            x = LEFT + index * CELL
            begin_ms = (current + (index - current) % WHEEL_SIZE) * level.tick_ms
            bucket = held.get(index)
            drawing.box(x, top, CELL - 6, ROW, "held" if bucket else "cell")
            if index == current % WHEEL_SIZE:
                drawing.box(x - 2, top - 2, CELL - 2, ROW + 4, "now")
            if bucket:
                assert bucket.expiration_ms == begin_ms
                tasks = " ".join(names[task] for task in bucket.tasks)
                kind = "task new" if new and new in tasks else "task"
                drawing.text(x + CELL / 2 - 3, top + 29, tasks, kind, "middle")
            drawing.text(x + CELL / 2 - 3, top + ROW + 14, f"{span(begin_ms, level.tick_ms)} ms", "faint", "middle")
        drawing.y = top + ROW + 20


def draw_queue(drawing: Drawing, snapshot: WheelSnapshot) -> None:
    """The delay queue: the buckets that hold something, in the order in which they fall due."""
    buckets = [f"{bucket.expiration_ms} ms (level {bucket.level})" for bucket in snapshot.queue]
    drawing.say("delay queue:   " + "   →   ".join(buckets) if buckets else "delay queue:   empty", "faint")


def levels() -> str:
    """Seven tasks on three levels."""
    wheel = TimingWheel(tick_ms=1, wheel_size=WHEEL_SIZE)
    names = {}
    for name, expiration_ms in zip("ABCDEFG", (3, 6, 6, 12, 45, 47, 300), strict=True):
        task = TimerTask(0)
        wheel.add(task, expiration_ms)
        names[task] = name
    drawing = Drawing("Three levels of a timing wheel of 8 buckets, tick 1 ms, holding seven tasks")
    drawing.say("Tick 1 ms, 8 buckets a level, at 0 ms. A: 3 ms, B and C: 6, D: 12, E: 45, F: 47, G: 300.", "head")
    drawing.say("The bucket that a level's clock stands in has a thick frame.", "faint")
    draw_levels(drawing, wheel.snapshot(), names)
    draw_queue(drawing, wheel.snapshot())
    return drawing.svg()


def cascade() -> str:
    """A bucket of level 2 falls due, and what it holds comes before what was added to level 1 directly."""
    wheel = TimingWheel(tick_ms=1, wheel_size=WHEEL_SIZE)
    names: dict[TimerTask, str] = {}
    drawing = Drawing("A cascade: the tasks of a bucket of level 2 move to level 1, in front of a later one")

    def add(name: str, expiration_ms: int) -> None:
        task = TimerTask(0)
        names[task] = name
        wheel.add(task, expiration_ms)

    def show(words: str, more: str, new: str = "") -> None:
        drawing.y += 12
        drawing.say(words, "head")
        drawing.say(more, "faint")
        draw_levels(drawing, wheel.snapshot(), names, new)
        draw_queue(drawing, wheel.snapshot())

    add("A", 21)
    add("B", 18)
    add("C", 21)
    show(
        "1.  At 0 ms: A and C are to run at 21 ms, B at 18 ms.",
        "Level 1 reaches to 7 ms, so all three wait in level 2.",
    )
    wheel.advance_clock(14)
    add("D", 21)
    show(
        "2.  At 14 ms: D is added, also for 21 ms.",
        "Level 1 now reaches to 21 ms, so D goes there at once; A and C, which are older, are still in level 2.",
        "D",
    )
    assert wheel.poll(16) == []
    show(
        "3.  At 16 ms: the bucket of level 2 falls due, and is emptied from its end: C, B, A.",
        "Each is put in front of what its bucket of level 1 holds. So D is behind A and C, as it was added after them.",
    )
    ran = [*wheel.poll(18), *wheel.poll(21)]
    drawing.y += 12
    drawing.say(f"4.  At 18 ms {names[ran[0]]} runs, at 21 ms {', '.join(names[task] for task in ran[1:])}.", "head")
    return drawing.svg()


PICTURES = {"levels.svg": levels, "cascade.svg": cascade}

if __name__ == "__main__":
    for file, draw in PICTURES.items():
        (HERE / file).write_text(draw())
