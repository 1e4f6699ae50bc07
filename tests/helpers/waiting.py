"""Waiting for what has to come about, without knowing when."""

import time

PATIENCE_S = 20
PATIENCE_WITH_MACHINE_S = 60


def wait_until(condition, patience_s=PATIENCE_S, look_every_s=0.001):
    """True once condition() is; False if it never is."""
    give_up = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(look_every_s)
    return True


def eventually(condition, what="the condition", patience_s=PATIENCE_WITH_MACHINE_S, look_every_s=0.002):
    """Waits until condition() is true, and fails if it never is."""
    assert wait_until(condition, patience_s, look_every_s), f"{what} did not come about in {patience_s} s"


class Waits:
    """A base for what has to be moved meanwhile, by its go_on()."""

    patience_s = PATIENCE_S

    def wait_for(self, condition, patience_s=None):
        return wait_until(lambda: self.go_on() or condition(), self.patience_s if patience_s is None else patience_s)
