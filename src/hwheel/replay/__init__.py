"""Replay: a log of timers run through the wheel in virtual time. What would have happened, and what would it have cost?

Needs NumPy (`pip install 'hwheel[replay]'`).
"""

from hwheel.extras import needed_by

with needed_by("hwheel.replay", "replay"):
    from hwheel.replay.costs import ReplayCosts
    from hwheel.replay.log import CANCELLED, FIRED, NEVER, Log, Replayed

__all__ = ["CANCELLED", "FIRED", "NEVER", "Log", "ReplayCosts", "Replayed"]
