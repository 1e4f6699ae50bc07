"""Only the main interpreter of a process imports the core.

The core's C variables are the process's: its classes, what it does at a fork, the clock of its loops. So one
interpreter can have it, and it has to be one that lives as long as the process, because all this would point
into an interpreter that is gone. Cython's own check lets in whoever comes first, which may be a short-lived
one, and then keeps the main one out: so this is asked before the core is loaded.
"""

import importlib
from typing import Any


def other_interpreters() -> Any:
    """CPython's module for them; None where there is none."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # from 3.13 on, and before
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    return None


def refuse_subinterpreter() -> None:
    """Raises ImportError in any interpreter but the main one. Without CPython's module Cython's check is left."""
    interpreters = other_interpreters()
    if interpreters is not None and interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "only the main interpreter of a process can import hwheel, and this is another one, a subinterpreter: have "
            "the timers in the main interpreter, or use processes instead, see docs/processes.md"
        )
