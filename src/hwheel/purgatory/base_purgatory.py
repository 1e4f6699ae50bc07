"""What purgatories share: a timer, given or of their own, and their life with the process."""

from typing import Self

from hwheel.timers.base import BaseTimer, check_runs_here
from hwheel.timers.lifecycle import follow_process
from hwheel.timers.system import SystemTimer


class BasePurgatory:
    """A subclass brings `_start_empty()`, `close()`, and the number of what waits for its repr."""

    def __init__(self, name: str, timer: BaseTimer | None, reaper: bool) -> None:
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {type(name).__name__}")
        if timer is not None and not isinstance(timer, BaseTimer):
            raise TypeError(f"timer must be a SystemTimer, a ManualTimer or None, not {type(timer).__name__}")
        check_runs_here(timer, "what waits in a purgatory")
        self.name = name
        self._owns_timer = timer is None
        # Without a reaper it has no thread at all.
        self.timer = SystemTimer(name, reaper=reaper, executor=None if reaper else "inline") if timer is None else timer
        self._closed = False
        self._start_empty()
        follow_process(self)

    def _start_empty(self) -> None:
        raise NotImplementedError

    def _waiting_count(self) -> int:
        raise NotImplementedError

    def close(self) -> object:
        """Refuses what comes from now on, and ends the purgatory's own timer."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        """True from close() on."""
        return self._closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self._waiting_count()} waiting"
        return f"<{type(self).__name__} {self.name!r}, {state}>"

    def _after_fork_in_child(self) -> None:
        """What waits is the parent's, as the timer's tasks are; and a lock may have been somebody's."""
        self._start_empty()

    def _at_exit(self) -> None:
        """Nothing: the timer sees to itself."""
