"""The inputs that are kept of each target: those that between them reach all that any input has reached. One archive a
target, because they are many and small."""

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path

KEPT = Path(__file__).parent / "corpus"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same inputs make the same archive


def kept(target: str) -> list[bytes]:
    """The inputs of a target."""
    archive = KEPT / f"{target}.zip"
    if not archive.exists():
        return []
    with zipfile.ZipFile(archive) as file:
        return [file.read(name) for name in file.namelist()]


def keep(target: str, inputs: Iterable[bytes]) -> int:
    """Keeps these and no others. Returns how many they are."""
    named = {hashlib.sha256(data).hexdigest()[:16]: data for data in inputs}
    KEPT.mkdir(exist_ok=True)
    with zipfile.ZipFile(KEPT / f"{target}.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in sorted(named.items()):
            file.writestr(zipfile.ZipInfo(name, LONG_AGO), data, zipfile.ZIP_DEFLATED)
    return len(named)
