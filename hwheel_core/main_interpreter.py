"""A check that only the main interpreter of a process imports the core.

The C variables of the core belong to the process: its classes, its fork handlers, the clock of its loops. So only one
interpreter can use the core, and that one must live as long as the process. Cython's own check admits the first
interpreter, which may be a short-lived one, and then refuses the main one. So this check runs before the core is
loaded.
"""

import importlib
from typing import Any


def other_interpreters() -> Any:
    """Return CPython's module for subinterpreters, or None."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # from 3.13 on, and before
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    return None


def refuse_subinterpreter() -> None:
    """Raise ImportError in a subinterpreter. Without CPython's module, only Cython's check remains."""
    interpreters = other_interpreters()
    if interpreters is not None and interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "only the main interpreter of a process can import hwheel, and this is a subinterpreter: use timers in the "
            "main interpreter, or use processes instead, see docs/processes.md"
        )
