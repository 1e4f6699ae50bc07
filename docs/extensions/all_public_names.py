"""The build fails if a public name is not in the reference."""

import importlib
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

HOMES = {"hwheel.threading": "hwheel"}  # whose names are the same as another's


def public_modules() -> list[str]:
    """The modules that docs/versions.md calls public."""
    told = (Path(__file__).parents[1] / "versions.md").read_text()
    names = told.partition("`__all__` of")[2].partition(";")[0]
    found = re.findall(r"`([\w.]+)`", names)
    return ["hwheel", *(f"hwheel.{name}" for name in found if name != "hwheel")]


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Sphinx asks this when it has read all pages."""
    told = env.domains["py"].data["objects"]
    for name in public_modules():
        module = importlib.import_module(name)
        for public in module.__all__:
            if f"{HOMES.get(name, name)}.{public}" not in told:
                logging.getLogger(__name__).warning("%s.%s is not in the reference", name, public)


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True}
