"""What a soak says: while it goes on, and at its end."""

import os
from pathlib import Path

from rich.console import Console
from rich.table import Table

import hwheel_core
from load import Load

BAR = 32


def line(load: Load) -> str:
    """How far it is."""
    account = load.account
    samples = load.samples
    faults = ", ".join(f"{count} {what}" for what, count in {**account.faults, **load.faults}.items() if count)
    return (
        f"{min(load.seconds, load.plan.seconds):,.0f} of {load.plan.seconds:,.0f} s, {account.added:,} tasks, "
        f"{load.operations / max(load.seconds, 1e-9):,.0f} operations a second, {load.pending:,} pending, "
        f"{samples.rss_mb[-1] if samples.rss_mb else 0:,.0f} MB" + (f": {faults}" if faults else "")
    )


def histogram(load: Load) -> Table:
    """How late callbacks came, a row each power of two."""
    bars = load.latenesses.bars()
    in_all, highest = sum(count for _, count in bars) or 1, max(count for _, count in bars) or 1
    table = Table("late by", "", "share", "callbacks", box=None, pad_edge=False)
    for column in (0, 2, 3):
        table.columns[column].justify = "right"
    for name, count in bars:
        drawn = "█" * round(BAR * count / highest) or ("▏" if count else "")
        table.add_row(name, drawn, f"{count / in_all:.3%}", f"{count:,}")
    return table


def say(load: Load, console: Console) -> None:
    """The verdict, and what it rests on."""
    account, counts, samples, took_s = load.account, load.counts, load.samples, load.plan.seconds
    console.print(histogram(load))
    build = "debug build" if hwheel_core.DEBUG else "release build"
    told = [
        f"{account.added:,} tasks, {load.operations:,} operations in {took_s:,.0f} s: "
        f"{load.operations / took_s:,.0f} a second; {build}, {os.cpu_count()} cores",
        f"at most {load.most_pending:,} pending at once",
        f"cancelled {counts['cancelled']:,}, moved {counts['moved']:,}, returned by close() {counts['returned']:,}; "
        f"{counts['slow']:,} slow callbacks, {counts['errors']:,} that failed, each reported once",
        f"{counts['forks']:,} forks, {counts['jumps']:,} jumps of a clock, {counts['signals']:,} signals, "
        f"{counts['timers closed']:,} timers made and closed",
    ]
    if samples.rss_mb:
        told.append(
            f"memory {samples.rss_slope:+.2f} MB a minute, at most {max(samples.rss_mb):,.0f} MB; "
            f"descriptors {samples.descriptors_slope:+.2f} a minute, at most {max(samples.descriptors)}"
        )
    told.append(f"lost {account.lost:,}, doubled {account.doubled:,}, early {account.early:,}; seed {load.plan.seed}")
    for text in told:
        console.print(text, soft_wrap=True, highlight=False)
    if load.faults:
        console.print(f"FOUND: {dict(load.faults)}", soft_wrap=True)
    else:
        console.print("nothing found: each task ended once, none before its deadline")


def draw(load: Load, file: Path) -> None:
    """The histogram, and the memory as time went by, as a picture."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (late, memory) = pyplot.subplots(2, 1, figsize=(9, 7), layout="constrained")
    names, counts = zip(*load.latenesses.bars(), strict=True)
    late.barh(names, counts, log=True)
    late.invert_yaxis()
    late.set_xlabel("callbacks")
    late.set_title(f"how late {sum(counts):,} callbacks came")
    minutes = [second / 60 for second in load.samples.seconds]
    memory.plot(minutes, load.samples.rss_mb)
    memory.set_ylim(bottom=0)
    memory.set_xlabel("minutes")
    memory.set_ylabel("MB")
    memory.set_title("memory of the process")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    pyplot.close(figure)
