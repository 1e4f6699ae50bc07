"""A marketing campaign: a day's coupons, played fast through `hwheel deliver`, and all of them counted at the end.

    python examples/push_campaign/run.py                                    a million, the day in two minutes
    python examples/push_campaign/run.py --coupons 20000 --seconds 20       a look

Needs hwheel[spark,cli] and Java 17 or later; matplotlib for the picture. Status 1 if a coupon was lost, sent twice,
early, out of order or after it was taken back.
"""

import argparse
import math
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from account import Account, Sent, make_account, read_sent, reasons
from feed import REHEARSED, Feeder, seconds_to_write, write_rehearsal
from job import PATIENCE_S, Counted, Job, JobFailed
from picture import NoMatplotlib, draw
from plan import MARGIN_MS, NIGHT_BEFORE, Kind, Plan, make_plan
from show import Progress

LEAD_S = 5.0  # to the start of the day,
LEAD_TIMES = 3  # and so many times as long as the night before takes to write: it is to be taken in as well
QUIET_S = 3.0  # after the last coupon: what comes now is one too many


def play(plan: Plan, directory: Path, console: Console) -> tuple[Account, Sent, Feeder]:
    """Plays the day. Returns what came of it."""
    job = Job(directory)
    try:
        job.wait_until_it_runs()
        out = rehearse(job, console)
        lead_s = LEAD_S + LEAD_TIMES * seconds_to_write(plan, int((plan.at_ms <= NIGHT_BEFORE).sum()))
        feeder = Feeder(plan, directory / "in", int((time.time() + lead_s) * 1000))
        feeder.start()
        watch(job, feeder, out, console)
        if status := job.stop():
            raise JobFailed(f"hwheel deliver has ended with {status}: {job.log.read_text()[-2000:]}")
    finally:
        if job.process.poll() is None:
            job.kill()
    sent, changed = read_sent(directory / "out", feeder)
    return make_account(feeder, sent, changed, reasons(directory / "out-dead-letters")), sent, feeder


def rehearse(job: Job, console: Console) -> Counted:
    """Sends some messages ahead: Spark's first batches take seconds, and the day shall not begin with them."""
    out, give_up = Counted(job.directory / "out"), time.monotonic() + PATIENCE_S
    write_rehearsal(job.directory / "in", int(time.time() * 1000))
    with console.status("rehearsal"):
        while out.look() < REHEARSED:
            job.check()
            if time.monotonic() > give_up:
                raise JobFailed(f"the rehearsal has not come out in {PATIENCE_S:.0f} s")
            time.sleep(0.1)
    out.lines, out.lag_ms = 0, None
    return out


def watch(job: Job, feeder: Feeder, out: Counted, console: Console) -> None:
    """Shows how it goes until everything is out, or nothing more comes."""
    plan = feeder.plan
    expected = len(plan.user) - int(plan.cancelled.sum())
    malformed = int((plan.kind > Kind.CANCEL).sum())
    dead = Counted(job.directory / "out-dead-letters")
    day_over = time.monotonic() + feeder.start_ms / 1000 - time.time() + plan.seconds
    count, changed_at, done_at = -1, time.monotonic(), math.inf
    with Progress(feeder, out, dead, expected, console) as progress:
        while time.monotonic() < done_at + QUIET_S:
            time.sleep(0.25)
            job.check()
            now = time.monotonic()
            if (found := out.look() + dead.look()) != count:
                count, changed_at = found, now
            if done_at == math.inf and out.lines >= expected and dead.lines >= malformed and not feeder.is_alive():
                done_at = now
            if now > max(changed_at, day_over) + PATIENCE_S:
                return  # the account will say what is missing
            progress.look()


def report(account: Account, sent: Sent, console: Console) -> bool:
    """Prints the account. Returns whether it is without fault."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in account.sums.items():
        table.add_row(name, f"{value:,}")
    for name, value in account.faults.items():
        table.add_row(name, f"{value:,}", style="bold red" if value else "green")
    for name, percent in (("half", 50), ("99 of 100", 99), ("all", 100)):
        if len(sent.coupon):
            late_s = np.percentile(sent.lag_ms, percent) / 1000
            table.add_row(f"in a file after the due time, {name} within", f"{late_s:.1f} s")
    console.print(table)
    return not any(account.faults.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coupons", type=int, default=1_000_000, help="how many (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long the day takes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default: %(default)s)")
    parser.add_argument("--keep", metavar="DIR", help="keep all files in DIR/campaign (default: keep none)")
    parser.add_argument("--picture", metavar="FILE", default="push_campaign.png", help="(default: %(default)s)")
    options = parser.parse_args()
    if options.coupons < 1000 or options.seconds * 1000 < 2 * MARGIN_MS:
        parser.error(f"there must be a thousand coupons at least, and {2 * MARGIN_MS / 1000:.0f} seconds")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which ends the job as well
    console = Console(highlight=False, soft_wrap=True)
    plan = make_plan(options.coupons, options.seconds, options.seed)
    with tempfile.TemporaryDirectory(prefix="hwheel-campaign-") as temporary:
        directory = Path(options.keep or temporary).resolve() / "campaign"
        if directory.exists():
            parser.error(f"--keep: there is a campaign in {options.keep} already")
        try:
            account, sent, feeder = play(plan, directory, console)
        except JobFailed as failed:
            print(failed, file=sys.stderr)
            return 1
    faultless = report(account, sent, console)
    try:
        draw(plan, feeder.start_ms, sent, account, Path(options.picture))
        console.print(f"picture: {options.picture}")
    except NoMatplotlib as missing:
        console.print(str(missing))
    return 0 if faultless else 1


if __name__ == "__main__":
    sys.exit(main())
