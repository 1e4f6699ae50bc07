"""Keys that run code when they are compared, and the due items of a DelayQueue."""

import queue


class HookedKey:
    """A key that calls `hook` in each comparison. Keys of the same number are equal, and all keys have one hash."""

    hook = None

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return 7

    def __eq__(self, other):
        if HookedKey.hook is not None:
            HookedKey.hook()
        return isinstance(other, HookedKey) and self.number == other.number

    def __repr__(self):
        return f"HookedKey({self.number})"


def take_due(q):
    """Take all due items from a DelayQueue, and return them in order."""
    items = []
    while True:
        try:
            items.append(q.get_nowait())
        except queue.Empty:
            return items
