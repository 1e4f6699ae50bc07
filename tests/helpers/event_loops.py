"""Factories of event loops, by name. Those of uvloop skip the test if uvloop is missing."""

import asyncio

import pytest

from hwheel.asyncio import EventLoop, wheel_loop

FACTORIES = {
    "asyncio": asyncio.new_event_loop,
    "hwheel": EventLoop,
    "uvloop": lambda: pytest.importorskip("uvloop").new_event_loop(),
    "hwheel over uvloop": lambda: wheel_loop(pytest.importorskip("uvloop").Loop)(),
}
