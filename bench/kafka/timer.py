"""Kafka's own timer in its JVM beside ours: `make bench KAFKA=1`. Needs a JDK of 17 or later, and Maven."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from rich.console import Console

from core.operations import BulkLife, Inputs, SingleLife, WrongWork, inputs_of
from core.rounds import turn
from implementations.wheel_bulk import WheelBulk
from implementations.wheel_tasks import WheelTasks
from lib.cell import Cell
from lib.table import show_rows, three

HERE = Path(__file__).parent
KAFKA = "Kafka's SystemTimer"
WHEEL_SIZE = 20  # Kafka's default
WARM_UP = 100_000  # timers of the lives that warm up the JVM
WARM_UPS = 5
MOST = 1_000_000


class NoKafka(Exception):
    """Kafka's timer is not available, with the reason."""


class Jvm:
    """A Java process that runs one life after the other."""

    def __init__(self, jars: Path) -> None:
        missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
        if missing:
            raise NoKafka(f"Kafka's timer is left out: there is no {' and no '.join(missing)}")
        bring_jars(jars)
        self.directory = tempfile.TemporaryDirectory(prefix="hwheel-kafka-")
        self.process = subprocess.Popen(
            ["java", "-Xmx4g", "-cp", f"{jars}/*", str(HERE / "KafkaTimer.java"), str(WHEEL_SIZE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def live(self, inputs: Inputs) -> tuple[dict[str, float], int]:
        """Return ns per timer of each operation, and the checksum.

        Raises:
            NoKafka: The process has ended.
            WrongWork: The wrong timers fired.
        """
        file = Path(self.directory.name) / str(inputs.pending)
        if not file.exists():
            moved_to_ms = [round(delay * 1000) for delay in inputs.moved_to_s]
            columns: Iterable[Any] = (inputs.delays_ms, inputs.cancelled, inputs.moved, moved_to_ms)
            np.concatenate([np.array([len(column), *column], dtype="<i8") for column in columns]).tofile(file)
        to, answers = _pipe(self.process.stdin), _pipe(self.process.stdout)
        to.write(f"{file}\n")
        to.flush()
        answer = answers.readline().strip()
        if not answer:
            raise NoKafka(f"Kafka's timer is left out, its process ended:\n{_pipe(self.process.stderr).read()[-2000:]}")
        parts = dict(part.split("=") for part in answer.split(";"))
        checksum = int(parts.pop("checksum"))
        expected = sum(inputs.indices) - sum(inputs.cancelled)
        if checksum != expected:
            raise WrongWork(f"{KAFKA}: checksum {checksum}, not {expected}")
        return {name: float(ns) for name, ns in parts.items()}, checksum

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            _pipe(pipe).close()
        self.process.wait()
        self.directory.cleanup()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def bring_jars(jars: Path) -> None:
    """Let Maven copy Kafka's jar and its dependencies into a directory, if it does not exist.

    Raises:
        NoKafka: Maven failed.
    """
    if jars.exists():
        return
    done = subprocess.run(
        [
            "mvn",
            "-q",
            "-B",
            "-f",
            str(HERE / "pom.xml"),
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={jars.resolve()}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        shutil.rmtree(jars, ignore_errors=True)
        raise NoKafka(f"Kafka's timer is left out, Maven could not bring it:\n{done.stdout[-2000:]}")


def measure(
    sizes: Iterable[int], rounds: int, jars: Path, on_turn: Callable[[str], object] = lambda turn: None
) -> list[dict[str, Any]]:
    """Measure Kafka's timer and ours in turns, and return the cells of both."""
    cells: dict[tuple[str, str, int], Cell] = {}
    with Jvm(jars) as jvm:
        for _ in range(WARM_UPS):
            on_turn("Kafka's timer is warming up")
            jvm.live(inputs_of(WARM_UP))
        for number in range(rounds):
            for pending in (size for size in sizes if WARM_UP // 10 <= size <= MOST):
                on_turn(f"round {number + 1} of {rounds}: Kafka's timer and ours, {pending:,} timers")
                for name, (ns, checksum) in (
                    (KAFKA, jvm.live(inputs_of(pending))),
                    (WheelTasks.name, turn(WheelTasks, SingleLife, pending)),
                    (WheelBulk.name, turn(WheelBulk, BulkLife, pending)),
                ):
                    for operation, value in ns.items():
                        cell = cells.setdefault((operation, name, pending), Cell(operation, name, pending))
                        cell.ns.append(value)
                        cell.checksum = checksum
    return [asdict(cell) for cell in cells.values()]


def show(part: list[dict[str, Any]], console: Console) -> None:
    """Print a row per operation and number of timers."""
    by_place = {(cell["operation"], cell["pending"], cell["implementation"]): cell["ns"] for cell in part}
    rows = []
    for operation, pending, name in by_place:
        if name == KAFKA:
            ours, theirs = by_place[operation, pending, WheelTasks.name], by_place[operation, pending, KAFKA]
            bulk = by_place.get((f"bulk {operation}", pending, WheelBulk.name))
            rows.append(
                [
                    operation,
                    pending,
                    three(theirs),
                    three(ours),
                    three(times(theirs, ours)),
                    *((three(bulk), three(times(theirs, bulk))) if bulk else ("–", "–")),
                ]
            )
    show_rows(
        f"{KAFKA} in its JVM (wheel size {WHEEL_SIZE}) beside hwheel called from Python, ns a timer",
        ["", "pending", "Kafka", "hwheel", "Kafka / it", "hwheel bulk", "Kafka / it"],
        rows,
        console,
    )


def times(theirs: list[float], ours: list[float]) -> list[float]:
    """Return the figure of each round."""
    return [their / our for their, our in zip(theirs, ours, strict=True)]
