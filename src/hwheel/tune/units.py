"""Quantities as text."""


def ms_text(ms: float) -> str:
    """Format a duration.

    >>> [ms_text(ms) for ms in (0.5, 7, 1500, 90_000, 5_400_000, 200_000_000)]
    ['0.5 ms', '7 ms', '1.5 s', '1.5 min', '1.5 h', '2.31 d']
    """
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= length:
            return f"{ms / length:.3g} {unit}"
    return f"{ms:.3g} ms"


def bytes_text(count: float) -> str:
    """Format an amount of memory.

    >>> [bytes_text(count) for count in (512, 70_000, 3_500_000, 12e9)]
    ['512 B', '70 kB', '3.5 MB', '12 GB']
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.3g} B"


def share_text(share: float) -> str:
    """Format a share as a percentage. Only zero is shown as 0 %.

    >>> [share_text(share) for share in (0, 0.00004, 0.0123, 0.5, 1)]
    ['0 %', '0.004 %', '1.2 %', '50 %', '100 %']
    """
    percent = share * 100
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"
