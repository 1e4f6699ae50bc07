"""Durations in the notation of Spark: "10 minutes", "250 ms"."""

import re
from datetime import timedelta

UNITS_MS = {
    "millisecond": 1,
    "ms": 1,
    "second": 1000,
    "s": 1000,
    "minute": 60_000,
    "min": 60_000,
    "hour": 3_600_000,
    "h": 3_600_000,
    "day": 86_400_000,
    "d": 86_400_000,
    "week": 604_800_000,
}

CALENDAR_UNITS = ("month", "quarter", "year")  # Spark's intervals allow them, but their length varies


def duration_ms(duration: str | timedelta, name: str) -> int:
    """Convert a duration to whole milliseconds.

    >>> duration_ms("10 minutes", "dedup")
    600000

    Args:
        duration: A string such as "10 minutes", "1 second", or "250 ms", or a timedelta.
        name: The name of the argument, for error messages.

    Raises:
        TypeError, ValueError: The duration is invalid.
    """
    if isinstance(duration, timedelta):
        milliseconds = duration / timedelta(milliseconds=1)
        if milliseconds != int(milliseconds) or milliseconds < 0:
            raise ValueError(f"{name} must be whole milliseconds, not {duration}")
        return int(milliseconds)
    if not isinstance(duration, str):
        raise TypeError(f'{name} must be a str like "10 minutes" or a timedelta, not {type(duration).__name__}')
    parts = re.fullmatch(r"\s*(\d+)\s*([a-z]+?)s?\s*", duration.lower())
    unit = parts and (UNITS_MS.get(parts[2]) or UNITS_MS.get(parts[2] + "s"))
    if parts and parts[2] in CALENDAR_UNITS:
        raise ValueError(f"{name} must be a fixed length, not {duration!r}: use days or hours")
    if not parts or not unit:
        raise ValueError(f'{name} must be a number and a unit, like "10 minutes" or "250 ms", not {duration!r}')
    return int(parts[1]) * unit
