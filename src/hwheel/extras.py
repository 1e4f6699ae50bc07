"""What is not installed, and how to get it: one sentence for every module and command that needs an extra."""

import importlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from hwheel_core import HwheelError

# By extra: the modules that are imported of it, and what a user knows them as.
EXTRAS = {
    "cli": {"rich": "rich"},
    "metrics": {"prometheus_client": "prometheus_client"},
    "recorder": {"pyarrow": "pyarrow"},
    "replay": {"numpy": "NumPy"},
    "tune": {"numpy": "NumPy", "pyarrow": "pyarrow", "rich": "rich", "matplotlib": "matplotlib"},
    "twisted": {"twisted": "Twisted"},
    "spark": {
        "pyspark": "pyspark",
        "pyarrow": "pyarrow",
        "numpy": "NumPy",
        "pandas": "pandas",
        "google.protobuf": "protobuf",
    },
}


class MissingExtraError(HwheelError, ModuleNotFoundError):
    """A module or command needs what is not installed; the message says how to get it."""


def require(who: str, *extras: str, without: Collection[str] = ()) -> None:
    """Raises MissingExtraError, which names all that `who` lacks of these extras. Some modules of them may be left out.

    The modules are imported, not only looked for, because what cannot be imported is of no use: an error of another
    kind in them is raised as it is.
    """
    lacking: dict[str, str] = {}
    of: list[str] = []
    for extra in extras:
        gone = [module for module in EXTRAS[extra] if module not in without and not _is_there(module)]
        lacking.update((module, EXTRAS[extra][module]) for module in gone)
        of += [extra] if gone else []
    if lacking:
        *others, last = lacking.values()
        names, are = (f"{', '.join(others)} and {last}", "are") if others else (last, "is")
        message = f"{who} needs {names}, which {are} not installed: pip install 'hwheel[{','.join(of)}]'"
        raise MissingExtraError(message, name=next(iter(lacking)))


@contextmanager
def needed_by(who: str, extra: str, without: Collection[str] = ()) -> Iterator[None]:
    """For imports that need an extra: where one fails for that reason, it says the same as `require`."""
    try:
        yield
    except ModuleNotFoundError:
        require(who, extra, without=without)
        raise


def _is_there(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        # The module itself or a package around it; anything else is missing in what is installed, which is no extra's.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return False
    return True
