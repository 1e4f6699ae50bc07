"""Waiting for a condition that another thread or process brings about."""

import time

PATIENCE_S = 20
PATIENCE_WITH_MACHINE_S = 60


def wait_until(condition, patience_s=PATIENCE_S, look_every_s=0.001):
    """Return True as soon as condition() is true, or False after patience_s seconds."""
    give_up = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(look_every_s)
    return True


def eventually(condition, what="the condition", patience_s=PATIENCE_WITH_MACHINE_S, look_every_s=0.002):
    """Wait until condition() is true. Fail after patience_s seconds."""
    assert wait_until(condition, patience_s, look_every_s), f"{what} was not met within {patience_s} s"


class Waits:
    """A base class for a test subject that must be driven by its go_on() while a test waits."""

    patience_s = PATIENCE_S

    def wait_for(self, condition, patience_s=None):
        return wait_until(lambda: self.go_on() or condition(), self.patience_s if patience_s is None else patience_s)
