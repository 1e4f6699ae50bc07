"""Waiting for what has to come about, without knowing when."""

import time

PATIENCE_S = 20


def wait_until(condition, patience_s=PATIENCE_S):
    """True once condition() is; False if it never is."""
    give_up = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.001)
    return True


class Waits:
    """A base for what has to be moved meanwhile, by its go_on()."""

    patience_s = PATIENCE_S

    def wait_for(self, condition, patience_s=None):
        return wait_until(lambda: self.go_on() or condition(), self.patience_s if patience_s is None else patience_s)
