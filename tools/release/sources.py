"""The files that git tracks, as they stand in the working tree."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]

# What is about this repository and not about the package.
NOT_RELEASED = (".ci/", ".github/", ".gitignore")


def git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout


def released_files() -> set[str]:
    """By their paths from the root."""
    return {name for name in git("ls-files", "-z").split("\0") if name and not name.startswith(NOT_RELEASED)}


def commit_time() -> int:
    """When the newest commit was made, in seconds since 1970: the time of every file in what is built."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct"))


def copy_to(place: Path) -> Path:
    """Copies them, and nothing else that lies in the tree."""
    for name in sorted(released_files()):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / name)
    return place
