"""Visits every state that can be reached from a first one."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

State = TypeVar("State", bound=Hashable)


class Broken(Exception):
    """A state in which something that was to be proved does not hold, and the way there."""

    def __init__(self, what: str, steps: list[str]) -> None:
        super().__init__(f"{what}, after:\n  " + "\n  ".join(steps))
        self.steps = steps


def search(
    first: State,
    steps_from: Callable[[State], Iterable[tuple[str, State]]],
    on_states: Callable[[int], object] = lambda count: None,
) -> int:
    """Breadth first. Returns how many states there are. on_states: called now and then with how many are known.

    steps_from: what may happen next, in words, and the state afterwards. An AssertionError in it is what is looked for.

    Raises:
        Broken: with one of the shortest ways.
    """
    came: dict[State, tuple[State, str] | None] = {first: None}
    frontier = [first]
    while frontier:
        following = []
        for state in frontier:
            try:
                for step, after in steps_from(state):
                    if after not in came:
                        came[after] = (state, step)
                        following.append(after)
            except AssertionError as error:
                raise Broken(str(error), way_to(state, came)) from None
        frontier = following
        on_states(len(came))
    return len(came)


def way_to(state: State, came: dict[State, tuple[State, str] | None]) -> list[str]:
    """The steps from the first state to this one."""
    steps: list[str] = []
    while (before := came[state]) is not None:
        state, step = before
        steps.insert(0, step)
    return steps
