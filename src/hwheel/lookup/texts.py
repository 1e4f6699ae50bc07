"""Ids and keys, which may be bytes, as text on the command line and in its output."""

import re


def shown(value: object) -> str | None:
    """Return a value as text. Bytes are decoded as UTF-8, with escapes where they are invalid."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return None if value is None else str(value)


def shown_as(text: str) -> bytes:
    """Return the bytes whose shown() is this text, if its backslash escapes stand for bytes that are not UTF-8."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), bytes_of(text))


def bytes_of(text: str) -> bytes:
    """Return the bytes of a command line argument, which may not be UTF-8."""
    return text.encode(errors="surrogateescape")
