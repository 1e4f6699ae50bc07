"""Durations in the notation of Spark: "10 minutes", "250 ms"."""

import re
from datetime import timedelta

NAMES_OF_UNITS = {
    1: "ms msec msecs millisecond milliseconds",
    1000: "s sec secs second seconds",
    60_000: "m min mins minute minutes",
    3_600_000: "h hr hrs hour hours",
    86_400_000: "d day days",
    604_800_000: "w week weeks",
}
UNITS_MS = {name: length_ms for length_ms, names in NAMES_OF_UNITS.items() for name in names.split()}

# Spark's intervals allow these units, but their length varies.
CALENDAR_UNITS = ("mo", "mon", "month", "months", "q", "quarter", "quarters", "y", "yr", "yrs", "year", "years")


def duration_ms(duration: str | timedelta, name: str) -> int:
    """Convert a duration to whole milliseconds.

    >>> duration_ms("10 minutes", "dedup")
    600000

    Args:
        duration: A string such as "10 minutes", "10m", "1 second", or "250 ms", or a timedelta.
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
    parts = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]+)\s*", duration, re.ASCII)
    if parts and parts[2] == "M":
        raise ValueError(f'{name} must have a unit with one meaning, not {duration!r}: "min" is minutes')
    if parts and parts[2].lower() in CALENDAR_UNITS:
        raise ValueError(f"{name} must be a fixed length, not {duration!r}: use days or hours")
    unit_ms = UNITS_MS.get(parts[2].lower()) if parts else None
    if not parts or unit_ms is None:
        raise ValueError(f'{name} must be a number and a unit, like "10 minutes" or "250 ms", not {duration!r}')
    return int(parts[1]) * unit_ms
