"""Lengths of time and moments at which a model may find something out."""

from typing import NamedTuple

from hypothesis import strategies as st

LAST_MS = 2**63 - 1


class Reach(NamedTuple):
    """A length of time that means something on any wheel: ticks of one of its levels, and a bit."""

    level: int
    ticks: int
    rest_ms: int

    def ms(self, tick_ms, wheel_size):
        return tick_ms * wheel_size**self.level * self.ticks + self.rest_ms


near = st.builds(Reach, st.just(0), st.integers(0, 25), st.integers(-1, 2))
reaches = near | st.builds(Reach, st.integers(0, 5), st.integers(0, 25), st.integers(-2, 30))
any_one = st.integers(0, 2**16)  # which of those that there are, by remainder
starts = (
    st.just(0)
    | st.integers(0, 10**4)
    | st.just(1675752020558)
    | st.integers(-(10**4), 10**4).map(lambda around: 2**62 + around)
    | st.sampled_from([0, 1, 2, 5, 30, 5000, 10**6]).map(lambda before_the_end: LAST_MS - before_the_end)
)


FLOAT_MS = 2**50  # so many ms a float of seconds names exactly; beyond, an int of seconds does


def as_seconds_can_say(ms):
    """A length of time near to this one that can be given in seconds."""
    return ms if abs(ms) < FLOAT_MS else ms - ms % 1000


def in_seconds(ms):
    """The same in seconds."""
    return ms / 1000 if abs(ms) < FLOAT_MS else ms // 1000
