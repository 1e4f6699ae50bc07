"""Hypothesis strategies for delays and start times near the boundaries of a wheel."""

from typing import NamedTuple

from hypothesis import strategies as st

LAST_MS = 2**63 - 1


class Reach(NamedTuple):
    """A duration relative to a wheel: ticks of one of its levels and a rest."""

    level: int
    ticks: int
    rest_ms: int

    def ms(self, tick_ms, wheel_size):
        return tick_ms * wheel_size**self.level * self.ticks + self.rest_ms


near = st.builds(Reach, st.just(0), st.integers(0, 25), st.integers(-1, 2))
reaches = near | st.builds(Reach, st.integers(0, 5), st.integers(0, 25), st.integers(-2, 30))
any_one = st.integers(0, 2**16)  # an index, modulo the number of existing objects
starts = (
    st.just(0)
    | st.integers(0, 10**4)
    | st.just(1675752020558)
    | st.integers(-(10**4), 10**4).map(lambda offset_ms: 2**62 + offset_ms)
    | st.sampled_from([0, 1, 2, 5, 30, 5000, 10**6]).map(lambda before_ms: LAST_MS - before_ms)
)


FLOAT_MS = 2**50  # below this, a float of seconds is exact to the millisecond


def as_seconds_can_say(ms):
    """Round a duration to one that seconds can express."""
    return ms if abs(ms) < FLOAT_MS else ms - ms % 1000


def in_seconds(ms):
    """Convert a duration to seconds."""
    return ms / 1000 if abs(ms) < FLOAT_MS else ms // 1000
