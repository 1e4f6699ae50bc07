"""Builds the plain half of the core, wheel/ and timer/, with threads of C over it, and runs that under ThreadSanitizer.

usage: run.py [--seconds S] [--seed N] [--broken FUNCTION] [--without-sanitizer]

What it says at the end is races.c's; where ThreadSanitizer found something, its reports, and the status is not 0.
--broken builds a core in which a function takes no lock: there something has to be found.
"""

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "helpers"))
import plain_half  # noqa: E402

# {function: its file}: a core can be built in which one of these takes no lock.
BROKEN = {
    "registry_leave": "timer/lock.pxi",
    "batch_take": "batch/bulk.pxi",
    "timer_grow": "timer/timer.pxi",
    "timer_stop": "timer/timer.pxi",
    "inboxes_open_locked": "timer/inbox.pxi",
}
LOCKING = re.compile(r"^( +)(?:lock_(?:wait|release|yield)|hw_mutex_(?:lock|unlock))\(.*$", re.MULTILINE)


def break_core(folder, broken):
    """Takes the locks out of a function of the copy."""
    file = folder / "core" / BROKEN[broken]
    text = file.read_text()
    begin = text.index(f" {broken}(")
    function, between, rest = text[begin:].partition("\n\n\n")
    function, locks = LOCKING.subn(r"\1pass", function)
    assert locks >= 2
    file.write_text(text[:begin] + function + between + rest)


def build(folder, broken=None, sanitized=True):
    """The program."""
    plain_half.copy_core(folder)
    if broken:
        break_core(folder, broken)
    plain_half.translate(folder, "races_core", [HERE / file for file in ("races.pxi", "races.h", "races.c")])
    # As without a GIL: with inboxes, and with them from the start.
    flags = ["-O1", "-g", "-DHW_INBOXES=1", "-DHW_MEETINGS=0", *(["-fsanitize=thread"] if sanitized else [])]
    return plain_half.compile_program(folder, "races", ["races.c"], flags)


def command(program, seconds, seed):
    """ThreadSanitizer wants its shadow where some kernels put the program: addresses are not shuffled, then."""
    alone = ["setarch", platform.machine(), "-R"] if shutil.which("setarch") else []
    return [*alone, str(program), str(seconds), str(seed)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broken", choices=BROKEN)
    parser.add_argument("--without-sanitizer", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder), arguments.broken, not arguments.without_sanitizer)
        return subprocess.run(command(program, arguments.seconds, arguments.seed), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
