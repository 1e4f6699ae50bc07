"""A clock that jumps, and what may have been due on it."""

import threading
import time


class JumpingClock:
    """Monotonic milliseconds, but for jumps in both directions; a timer's clock=.

    A task is due once any reading since it was added has reached its deadline: what was due before the clock was set
    back stays due. So the highest reading before each time that it is set back is kept.
    """

    def __init__(self) -> None:
        self._offset_ms = 0.0
        self._highest: list[float] = []
        self.still = threading.Lock()  # who holds it adds without a jump in between

    def __call__(self) -> float:
        # The time is read first. Were it the offset, a thread that stops in between would come back with an old one,
        # and a reading above the highest.
        return time.monotonic() * 1000 + self._offset_ms

    def jump(self, by_ms: float) -> None:
        """From now on it says so much more, or less."""
        with self.still:
            if by_ms < 0:
                self._highest.append(self())
            self._offset_ms += by_ms

    @property
    def age(self) -> int:
        """How often it was set back; goes with a task, to seconds_since()."""
        return len(self._highest)

    def seconds_since(self, age: int) -> float:
        """The highest reading that there may have been since that age."""
        return max(self(), *self._highest[age:]) / 1000 if age < len(self._highest) else self() / 1000
