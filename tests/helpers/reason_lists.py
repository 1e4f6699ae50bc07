"""Lists of reasons: TOML in which each group gives one reason to many names."""

import tomllib
from pathlib import Path


def reasons_in(file: Path, kind: str, names: str) -> dict[str, str]:
    """{name: its reason} of all groups [[kind]], which have their names under the key `names`."""
    found: dict[str, str] = {}
    for group in tomllib.loads(file.read_text(encoding="utf-8")).get(kind, []):
        for name in group[names]:
            if name in found:
                raise SystemExit(f"{file.name} names this twice: {name}")
            found[name] = group["reason"]
    return found
