"""An executor that runs nothing until it is told to."""

import queue

from waiting import PATIENCE_WITH_MACHINE_S


class Held:
    """Keeps what is submitted, for run_one() or for who takes it out of `calls`."""

    def __init__(self):
        self.calls = queue.SimpleQueue()

    def submit(self, function, *args):
        self.calls.put((function, args))

    def run_one(self):
        function, args = self.calls.get(timeout=PATIENCE_WITH_MACHINE_S)
        function(*args)
