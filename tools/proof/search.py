"""Search of all states that can be reached from a first one."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

State = TypeVar("State", bound=Hashable)


class Broken(Exception):
    """An invariant does not hold in a state. The message has the steps to it."""

    def __init__(self, what: str, steps: list[str]) -> None:
        super().__init__(f"{what}, after:\n  " + "\n  ".join(steps))
        self.steps = steps


def search(
    first: State,
    steps_from: Callable[[State], Iterable[tuple[str, State]]],
    on_states: Callable[[int], object] = lambda count: None,
) -> int:
    """Visit all states, breadth first, and return their number.

    Args:
        first: The first state.
        steps_from: Returns (description, next state) for every possible step. An AssertionError in it means that an
            invariant does not hold.
        on_states: Called from time to time with the number of known states.

    Raises:
        Broken: An invariant does not hold; with one of the shortest paths to that state.
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
    """Return the steps from the first state to this one."""
    steps: list[str] = []
    while (before := came[state]) is not None:
        state, step = before
        steps.insert(0, step)
    return steps
