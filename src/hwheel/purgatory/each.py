"""A loop that an error does not end."""

from collections.abc import Callable, Iterable
from typing import TypeVar

_T = TypeVar("_T")


def each(function: Callable[[_T], object], things: Iterable[_T]) -> None:
    """Calls function(thing) for all of them; then raises the first exception that one of the calls has raised.

    KeyboardInterrupt and SystemExit are no exception: who waits for the others cannot know of them.
    """
    first: BaseException | None = None
    for thing in things:
        try:
            function(thing)
        except BaseException as error:
            if first is None:
                first = error
    if first is not None:
        try:
            raise first
        finally:
            del first  # its traceback leads here
