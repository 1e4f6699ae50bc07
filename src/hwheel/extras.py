"""The error of a missing extra, which names the packages and the pip command."""

import importlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from hwheel_core import HwheelError

# {extra: {module: name of its package}}
EXTRAS = {
    "cli": {"rich": "rich"},
    "metrics": {"prometheus_client": "prometheus_client"},
    "kafka": {"confluent_kafka": "confluent-kafka"},
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
    """A module or command needs packages that are not installed. The message has the pip command."""


def require(name: str, *extras: str, without: Collection[str] = ()) -> None:
    """Raise MissingExtraError if ``name`` lacks packages of these extras.

    The modules are imported, because an installed module can be broken. The error of a broken module passes through.

    Args:
        name: The module or command, for the message.
        extras: Keys of EXTRAS.
        without: Modules that ``name`` does not need.
    """
    lacking: dict[str, str] = {}
    lacking_extras: list[str] = []
    for extra in extras:
        modules = [module for module in EXTRAS[extra] if module not in without and not _is_there(module)]
        lacking.update((module, EXTRAS[extra][module]) for module in modules)
        lacking_extras += [extra] if modules else []
    if lacking:
        *others, last = lacking.values()
        names, are = (f"{', '.join(others)} and {last}", "are") if others else (last, "is")
        command = f"pip install 'hwheel[{','.join(lacking_extras)}]'"
        raise MissingExtraError(f"{name} needs {names}, which {are} not installed: {command}", name=next(iter(lacking)))


@contextmanager
def needed_by(name: str, extra: str, without: Collection[str] = ()) -> Iterator[None]:
    """Guard imports: raise MissingExtraError, as ``require`` does, if a module of the extra is missing."""
    try:
        yield
    except ModuleNotFoundError:
        require(name, extra, without=without)
        raise


def _is_there(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        # The extra is missing only if the error names the module or its parent package. Otherwise the module is broken.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return False
    return True
