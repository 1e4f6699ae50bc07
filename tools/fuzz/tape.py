"""Bytes of a fuzzer as a tape of choices. Beyond the end the tape has zeros, so every tape is valid."""

from collections.abc import Iterator

FAR = (2**63 - 1, 2**63 - 2, 2**62, 2**53, 2**50, 2**40, 86_400_000, 2**31, 2**32)


def number(tape: Iterator[int]) -> int:
    """Read a number that is not negative: mostly a small one, from few bytes."""
    first = next(tape, 0)
    if first < 192:
        return first
    if first < 224:
        return (first - 192 << 8) + next(tape, 0)
    if first < 224 + len(FAR):
        return FAR[first - 224]
    return (1 << first - 192) + next(tape, 0)
