"""Forks and exits under load, many of them: none hangs, and each ends with the status that it should."""

import itertools
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from exits import ENDINGS, SAYS, STATES

HERE = Path(__file__).parent
PATIENCE_S = 100
WATCHED = ["-P", "-X", "faulthandler", "-W", "ignore::DeprecationWarning"]


def told_to_abort(process: subprocess.Popen) -> str:
    """Ends a program that hangs, and what it says of the places where its threads are."""
    process.send_signal(signal.SIGABRT)
    try:
        return process.communicate(timeout=10)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1]


def forks(count: int, seed: int, on_end: Callable[[int], object]) -> str:
    """What forks.py says, after so many. It is watched by its lines, since it may hang itself."""
    command = [sys.executable, *WATCHED, HERE / "forks.py", str(count), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            text = b""
            while select.select([process.stdout], [], [], PATIENCE_S)[0]:
                said = os.read(process.stdout.fileno(), 65536)
                if not said:
                    status = process.wait(PATIENCE_S)
                    return f"ended with {status}" if status else text.decode().splitlines()[-1]
                text += said
                on_end(text.count(b"\n"))
            told_to_abort(process)
            return "the parent of the forks hangs"
        finally:
            process.kill()


def is_wrong(said: str) -> bool:
    """Whether forks() has found anything."""
    try:
        told = json.loads(said)
    except ValueError:
        return True
    return any(told[what] for what in ("wrong", "lost", "doubled", "early"))


def cases(count: int, seed: int) -> Iterable[tuple[str, str, str]]:
    """States, executors and endings, all before any comes again."""
    chance = random.Random(seed)
    every = [*itertools.product(STATES, ["own", "inline"], ENDINGS)]
    for _ in range(0, count, len(every)):
        chance.shuffle(every)
        yield from every[:count]
        count -= len(every)


def exit_of(case: tuple[str, str, str], delay_s: float) -> str:
    """What is wrong with the end of a program in that case; "": nothing."""
    command = [sys.executable, *WATCHED, HERE / "exits.py", *case]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ending = case[2]
    if ending.startswith("SIG"):
        process.stdout.readline()
        time.sleep(delay_s)
        process.send_signal(getattr(signal, ending.split()[0]))
    try:
        out, errors = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return f"hangs: {told_to_abort(process)}"
    if process.returncode != ENDINGS[ending][1]:
        return f"ends with {process.returncode}: {out}{errors}"
    if ending in SAYS:
        said = errors.strip().splitlines()
        return "" if said and said[-1] == SAYS[ending] and errors.count("Traceback") == 1 else f"says {errors}"
    return f"says {out}{errors}" if out or errors else ""


def exits(count: int, seed: int, on_end: Callable[[int], object]) -> Counter:
    """What was wrong with so many exits, by the case."""
    wrong: Counter = Counter()
    chance = random.Random(seed)
    for number, case in enumerate(cases(count, seed), 1):
        if what := exit_of(case, chance.random() / 20):
            wrong[f"{' / '.join(case)} {what}"] += 1
        on_end(number)
    return wrong
