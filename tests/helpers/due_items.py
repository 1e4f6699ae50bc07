"""What a DelayQueue gives now."""

import queue


def taken(q):
    """All that is due now, in order."""
    items = []
    while True:
        try:
            items.append(q.get_nowait())
        except queue.Empty:
            return items
