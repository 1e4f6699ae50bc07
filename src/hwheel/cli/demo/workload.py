"""Workloads: requests, each with a timeout. Nothing here knows a timer."""

import random
from collections.abc import Iterable
from typing import NamedTuple


class Request(NamedTuple):
    """One request, in ms from the start of the workload. end_ms: when it completes, which cancels its timeout; None: it
    never does. It may complete after its timeout: then that has run."""

    start_ms: float
    timeout_ms: float
    end_ms: float | None


class Workload(NamedTuple):
    """Requests as columns, in seconds, in the order in which they start; and who completes when, in that order."""

    starts_s: list[float]
    timeouts_s: list[float]
    ends_s: list[float]
    ending: list[int]  # indices of requests; ends_s[k] is when request ending[k] completes

    def __len__(self) -> int:
        return len(self.starts_s)

    @property
    def seconds(self) -> float:
        """How long it takes until the last timeout would have run."""
        return max(map(sum, zip(self.starts_s, self.timeouts_s, strict=True)), default=0.0)


def workload_of(requests: Iterable[Request], speed: float = 1.0) -> Workload:
    """The requests, in order of their start, from 0 on, with all times divided by speed."""
    ordered = sorted(requests, key=lambda request: request.start_ms)
    first_ms = ordered[0].start_ms if ordered else 0.0
    ms = 1000.0 * speed
    ending = sorted(
        ((request.end_ms - first_ms) / ms, index) for index, request in enumerate(ordered) if request.end_ms is not None
    )
    return Workload(
        [(request.start_ms - first_ms) / ms for request in ordered],
        [request.timeout_ms / ms for request in ordered],
        [end for end, _ in ending],
        [index for _, index in ending],
    )


def made_up(count: int, rate: float, cancel_ratio: float, timeout_ms: tuple[float, float], seed: int) -> list[Request]:
    """Requests at a steady rate a second. Of these `cancel_ratio` complete, most of them early in their timeout, the
    last at nine tenths of it, so that a completion and a timeout do not race; the others never complete."""
    chance = random.Random(seed)
    shortest_ms, longest_ms = timeout_ms
    completing = round(count * cancel_ratio)
    completes = [True] * completing + [False] * (count - completing)
    chance.shuffle(completes)
    requests = []
    for index, complete in enumerate(completes):
        start_ms = index * 1000.0 / rate
        timeout = chance.uniform(shortest_ms, longest_ms)
        end_ms = start_ms + timeout * 0.9 * chance.random() ** 2 if complete else None
        requests.append(Request(start_ms, timeout, end_ms))
    return requests


def sample(requests: list[Request], count: int) -> list[Request]:
    """At most `count` of the requests, evenly spread."""
    if len(requests) <= count:
        return requests
    return [requests[index * len(requests) // count] for index in range(count)]
