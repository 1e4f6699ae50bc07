"""each(): a loop that an error does not end."""

import gc
import weakref

import pytest

from hwheel.purgatory.each import each


class Thing:
    """What is given to the function; its end can be seen."""


def test_all_are_called_and_the_first_exception_is_raised():
    called = []

    def call(error):
        called.append(error)
        raise error

    errors = [ZeroDivisionError("first"), KeyboardInterrupt("second"), ValueError("third")]
    with pytest.raises(ZeroDivisionError, match="first"):
        each(call, errors)
    assert called == errors


def test_what_was_raised_keeps_nothing_alive_once_it_is_gone():
    def call(thing):
        raise ValueError

    thing = Thing()
    seen = weakref.ref(thing)
    gc.collect()
    gc.disable()
    try:
        try:
            each(call, [thing])
        except ValueError:
            pass
        del thing
        assert seen() is None
    finally:
        gc.enable()
