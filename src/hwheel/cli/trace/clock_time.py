"""Milliseconds as the time of day."""

import argparse
import re
from datetime import UTC, datetime, timedelta

WALL_CLOCK_FROM_MS = 100_000_000_000  # March 1973
WALL_CLOCK_TO_MS = 253_402_300_800_000 - 86_400_000  # the last day that datetime can represent in any time zone


def utc_offset(text: str) -> timedelta:
    """Parse an option value: 8, +08:00, -5, or +5:30."""
    match = re.fullmatch(r"([+-]?)(\d{1,2})(?::(\d\d))?", text)
    if match is None or int(match[2]) > 14 or int(match[3] or 0) > 59:
        raise argparse.ArgumentTypeError(f"must be hours from UTC like +08:00, not {text!r}")
    offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
    return -offset if match[1] == "-" else offset


def looks_like_wall_clock(time_ms: int) -> bool:
    """Return True for a plausible time since 1970, False for a small number."""
    return WALL_CLOCK_FROM_MS <= time_ms < WALL_CLOCK_TO_MS


def clock_time(time_ms: int, offset: timedelta) -> str:
    """Format a time as 14:40:20, with milliseconds unless they are zero."""
    if not 0 <= time_ms < WALL_CLOCK_TO_MS:
        return "far off"
    moment = datetime.fromtimestamp(time_ms // 1000, UTC) + offset
    rest_ms = time_ms % 1000
    return f"{moment:%H:%M:%S}" + (f".{rest_ms:03}" if rest_ms else "")
