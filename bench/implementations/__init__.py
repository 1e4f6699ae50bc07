"""The measured timers behind the interface in base.py."""

from importlib import import_module

from implementations.base import Implementation

# (module, class, distribution that it needs, if any)
ALL = (
    ("wheel", "WheelTasks", None),
    ("wheel", "WheelBulk", None),
    ("standard", "Asyncio", None),
    ("uvloop_timers", "Uvloop", "uvloop"),
    ("standard", "Heap", None),
    ("sorted_list", "Sorted", "sortedcontainers"),
    ("standard", "Sched", None),
    ("standard", "Threads", None),
)


def available() -> tuple[list[type[Implementation]], list[str]]:
    """Return the available implementations, and a note for each of the others."""
    found, notes = [], []
    for module, name, needs in ALL:
        try:
            found.append(getattr(import_module(f"implementations.{module}"), name))
        except ImportError as error:
            if needs is None:
                raise
            notes.append(f"{needs} is left out, it cannot be imported ({error}); to have it: pip install {needs}")
    return found, notes
