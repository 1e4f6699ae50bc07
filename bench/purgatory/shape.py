"""The load that Kafka's TestPurgatoryPerformance puts on a purgatory: what arrives when, and what completes it when.

Operations arrive as a Poisson process. Each is completed some time after it arrived, log-normally distributed with a
given median and 75th percentile; one whose time would come after its timeout is left to the timeout. Each is watched
for three keys out of a hundred. (Kafka's program draws the three keys once for all operations; here every operation has
its own.)
"""

import math
import random
from dataclasses import dataclass
from typing import NamedTuple

KEYS = 100
KEYS_AN_OPERATION = 3
QUANTILE_75 = 0.674490  # of the standard normal distribution


@dataclass(frozen=True)
class Shape:
    """What does not depend on the rate."""

    p50_ms: float = 20.0
    p75_ms: float = 60.0
    timeout_ms: int = 200
    seed: int = 1


class Schedule(NamedTuple):
    """Events in order of time. times: in seconds. numbers: of the operation that arrives; ~ of the one to complete."""

    times: list[float]
    numbers: list[int]
    keys: list[tuple[str, ...]]  # of each operation
    expected_to_expire: int


def schedule(shape: Shape, rate: float, seconds: float) -> Schedule:
    """The same for everybody who asks with the same arguments."""
    dice = random.Random(shape.seed)
    mu = math.log(shape.p50_ms)
    sigma = (math.log(shape.p75_ms) - mu) / QUANTILE_75
    choices = [tuple(dice.sample([f"key{i}" for i in range(KEYS)], KEYS_AN_OPERATION)) for _ in range(10_000)]
    events: list[tuple[float, int]] = []
    keys: list[tuple[str, ...]] = []
    now = 0.0
    to_expire = 0
    while (now := now + dice.expovariate(rate)) < seconds:
        number = len(keys)
        keys.append(dice.choice(choices))
        events.append((now, number))
        latency_ms = dice.lognormvariate(mu, sigma)
        if latency_ms < shape.timeout_ms:
            events.append((now + latency_ms / 1000, ~number))
        else:
            to_expire += 1
    events.sort()
    return Schedule([time for time, _ in events], [number for _, number in events], keys, to_expire)
