"""The mutants that no test can tell from the wheel, or that none is meant to, each with its reason: explained.toml."""

import tomllib
from pathlib import Path

LIST = Path(__file__).with_name("explained.toml")


def explained() -> dict[str, str]:
    """{a mutant's name: why it survives}."""
    reasons = {}
    for group in tomllib.loads(LIST.read_text(encoding="utf-8")).get("group", []):
        for name in group["mutants"]:
            if name in reasons:
                raise SystemExit(f"{LIST.name} names this twice: {name}")
            reasons[name] = group["reason"]
    return reasons
