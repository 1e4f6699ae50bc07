"""What a purgatory counts."""

from typing import NamedTuple


class PurgatoryStats(NamedTuple):
    """The counters of a purgatory at one moment.

    Now: watched, the lengths of all watch lists together, with what is completed and not yet purged; delayed,
    operations whose timeout is to come.

    Since the purgatory was made: completed operations, whoever completed them; expired, those among them that their
    timeout completed; purged, entries of completed operations that a purge took off the watch lists.
    """

    watched: int
    delayed: int
    completed: int
    expired: int
    purged: int


PurgatoryStats.__module__ = "hwheel.purgatory"
