"""Replay: run a log of timers through the wheel in virtual time, and count the costs.

Needs NumPy (``pip install 'hwheel[replay]'``).
"""

from hwheel.extras import needed_by

with needed_by("hwheel.replay", "replay"):
    from hwheel.replay.costs import ReplayCosts
    from hwheel.replay.log import CANCELLED, FIRED, NEVER, Log, Replayed

__all__ = ["CANCELLED", "FIRED", "NEVER", "Log", "ReplayCosts", "Replayed"]
