"""Play a day of a marketing campaign through `hwheel deliver`, and count the delivered coupons.

    python examples/push_campaign/run.py                                    a million coupons, the day in two minutes
    python examples/push_campaign/run.py --coupons 20000 --seconds 20       a quick look

Needs hwheel[spark,cli] and Java 17 or later, and matplotlib for the picture. Exits with status 1 if a coupon was lost,
sent twice, early, or out of order, or sent after it was cancelled.
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

LEAD_S = 5.0  # before the start of the day, plus
LEAD_TIMES = 3  # this multiple of the time to write the files of the night before, which the job must read too
QUIET_S = 3.0  # wait for surplus coupons after the last one


def play(plan: Plan, directory: Path, console: Console) -> tuple[Account, Sent, Feeder]:
    """Play the day; return the results."""
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
    """Send some messages before the day, because the first batches of Spark take seconds."""
    out, give_up = Counted(job.directory / "out"), time.monotonic() + PATIENCE_S
    write_rehearsal(job.directory / "in", int(time.time() * 1000))
    with console.status("rehearsal"):
        while out.look() < REHEARSED:
            job.check()
            if time.monotonic() > give_up:
                raise JobFailed(f"the rehearsal was not delivered in {PATIENCE_S:.0f} s")
            time.sleep(0.1)
    out.lines, out.lag_ms = 0, None
    return out


def watch(job: Job, feeder: Feeder, out: Counted, console: Console) -> None:
    """Show the progress until all coupons are delivered, or until the output stops."""
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
                return  # the account reports the missing coupons
            progress.look()


def report(account: Account, sent: Sent, console: Console) -> bool:
    """Print the account; return True if it has no fault."""
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
            table.add_row(f"lag, {name} within", f"{late_s:.1f} s")
    console.print(table)
    return not any(account.faults.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coupons", type=int, default=1_000_000, help="number of coupons (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=120.0, help="duration of the day (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: %(default)s)")
    parser.add_argument("--keep", metavar="DIR", help="keep all files in DIR/campaign (default: keep none)")
    parser.add_argument("--picture", metavar="FILE", default="push_campaign.png", help="(default: %(default)s)")
    options = parser.parse_args()
    if options.coupons < 1000 or options.seconds * 1000 < 2 * MARGIN_MS:
        parser.error(f"--coupons must be at least 1000, and --seconds at least {2 * MARGIN_MS / 1000:.0f}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # also stops the job
    console = Console(highlight=False, soft_wrap=True)
    plan = make_plan(options.coupons, options.seconds, options.seed)
    with tempfile.TemporaryDirectory(prefix="hwheel-campaign-") as temporary:
        directory = Path(options.keep or temporary).resolve() / "campaign"
        if directory.exists():
            parser.error(f"--keep: {options.keep} has a campaign already")
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
