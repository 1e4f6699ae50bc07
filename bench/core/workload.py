"""A workload like that of ratas (github.com/jsnell/ratas): connections with four kinds of timers.

    idle        far away, moved with every message, never fires
    pace        very soon and repeated, always fires: the next piece of a response
    request     later, always fires: the next request
    deadline    added with each request, moved at the first piece of the response, usually cancelled at the last

A few requests get no response, so their deadline fires. Unlike in ratas, a connection ends after a number of requests,
so that engines that are late in real time do the same work.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from core.operations import WrongWork
from core.rounds import timed
from implementations.base import Implementation, TooSlow
from lib.table import show_rows, three

IDLE_S = 60.0
PACE_S = 0.002
INTERVAL_S = 0.05
DEADLINE_S = 1.0
PIECES = 16  # of a response
REQUESTS = 6  # of a connection
UNANSWERED = 1 / 40  # of the requests
START_S = 0.1  # the period in which the connections start


@dataclass
class Total:
    """The result of a run of one engine."""

    implementation: str
    connections: int
    messages: int
    checksum: int
    remark: str
    ns: list[float] = field(default_factory=list)  # per message, one figure per round


class Connection:
    """A connection with both sides."""

    def __init__(self, number: int, timer: Implementation, done: list[int]) -> None:
        self.number, self.timer, self.done = number, timer, done
        chance = random.Random(number)
        self.unanswered = [chance.random() < UNANSWERED for _ in range(REQUESTS)]
        self.start_s, self.interval_s = chance.random() * START_S, INTERVAL_S * (1 + chance.random())
        self.requests = self.received = self.timeouts = 0
        self.is_over = self.fell_behind = False

    def start(self) -> None:
        self.idle = self.timer.add(IDLE_S, self.on_idle, None)
        self.timer.add(self.start_s, self.on_request, None)

    def on_request(self, _: object) -> None:
        if self.is_over:
            return
        self.touch()
        self.deadline = self.timer.add(DEADLINE_S, self.on_deadline, None)
        if not self.unanswered[self.requests]:
            self.timer.add(PACE_S, self.on_pace, None)
        self.requests += 1

    def on_pace(self, _: object) -> None:
        if self.is_over:
            return
        self.touch()
        if self.received % PIECES == 0:
            self.deadline = self.timer.reschedule(self.deadline, DEADLINE_S, self.on_deadline, None)
        self.received += 1
        if self.received % PIECES:
            self.timer.add(PACE_S, self.on_pace, None)
        else:
            self.timer.cancel(self.deadline)
            self.go_on()

    def on_deadline(self, _: object) -> None:
        if not self.unanswered[self.requests - 1]:  # the response is late, because the machine is
            self.fell_behind = True
            self.end()
            return
        self.timeouts += 1
        self.go_on()

    def on_idle(self, _: object) -> None:
        raise WrongWork("a connection was idle for a minute")

    def touch(self) -> None:
        self.idle = self.timer.reschedule(self.idle, IDLE_S, self.on_idle, None)

    def go_on(self) -> None:
        if self.requests < REQUESTS:
            self.timer.add(self.interval_s, self.on_request, None)
        else:
            self.end()

    def end(self) -> None:
        self.is_over = True
        self.timer.cancel(self.idle)
        self.done.append(self.number)

    def checksum(self) -> int:
        return (self.number + 1) * (self.received + 1_000 * self.timeouts)

    def expected(self) -> int:
        """Return the same checksum without a timer."""
        timeouts = sum(self.unanswered)
        return (self.number + 1) * ((REQUESTS - timeouts) * PIECES + 1_000 * timeouts)


def measure(
    implementations: Sequence[type[Implementation]],
    connections: int,
    rounds: int,
    on_turn: Callable[[str], object] = lambda turn: None,
) -> list[Total]:
    """Measure the implementations in turns, with as many connections as each can handle.

    Raises:
        WrongWork: A checksum is wrong.
    """
    totals: dict[str, Total] = {}
    bears: dict[str, int] = {}
    for number in range(rounds):
        for make in implementations:
            if "add" in make.lacks:
                continue
            on_turn(f"round {number + 1} of {rounds}: workload, {make.name}")
            bears.setdefault(make.name, min(connections, make.most_connections))
            while True:
                try:
                    total, seconds = turn(make, bears[make.name])
                    break
                except TooSlow:
                    if bears[make.name] == 1:
                        raise
                    bears[make.name] //= 2
            totals.setdefault(make.name, total).ns.append(seconds / total.messages * 1e9)
    return list(totals.values())


def turn(make: type[Implementation], connections: int) -> tuple[Total, float]:
    """Return the result of a run, and its seconds: processor time if the engine runs in real time.

    Raises:
        TooSlow: An engine in real time was so late that the wrong deadlines passed.
    """
    timer = make(connections, flowing=True)
    done: list[int] = []
    all_of_them = [Connection(number, timer, done) for number in range(connections)]

    def run() -> None:
        for connection in all_of_them:
            connection.start()
        timer.flow(lambda: len(done) == connections)

    try:
        seconds = timed(run, make.flow_clock)
    finally:
        timer.close()
    if any(connection.fell_behind for connection in all_of_them):
        raise TooSlow(f"{make.name} with {connections} connections")
    checksum = sum(connection.checksum() for connection in all_of_them)
    expected = sum(connection.expected() for connection in all_of_them)
    if checksum != expected or len(done) != connections:
        raise WrongWork(f"{make.name}: checksum {checksum}, not {expected}; {len(done)} of {connections} have ended")
    messages = sum(connection.received + connection.requests for connection in all_of_them)
    real_time = "" if make.flow_clock is Implementation.flow_clock else "real time, processor time counted"
    return Total(make.name, connections, messages, checksum, real_time), seconds


def show(totals: Sequence[Total], console: Console) -> None:
    """Print a row per implementation, with ratios of the same rounds."""
    ours = next(total.ns for total in totals if total.implementation == "hwheel")
    rows = [
        [
            f"{total.implementation}{' *' if total.remark else ''}",
            total.connections,
            total.messages,
            total.checksum,
            three(total.ns),
            three([one / other for one, other in zip(total.ns, ours, strict=True)]),
        ]
        for total in totals
    ]
    show_rows(
        "workload: connections with timeouts",
        ["", "connections", "messages", "checksum", "ns a message", "times hwheel"],
        rows,
        console,
    )
    for remark in dict.fromkeys(total.remark for total in totals if total.remark):
        console.print(f"*: {remark}", style="dim")
