"""The timers that are measured, each in a file of its own behind the face in base.py."""

from importlib import import_module

from implementations.base import Implementation

# Module, class, and the distribution that it needs, if it is not hwheel or the standard library.
ALL = (
    ("wheel_tasks", "WheelTasks", None),
    ("wheel_bulk", "WheelBulk", None),
    ("event_loops", "Asyncio", None),
    ("uvloop_timers", "Uvloop", "uvloop"),
    ("stdlib_sched", "Sched", None),
    ("thread_timers", "Threads", None),
    ("heap", "Heap", None),
    ("sorted_list", "Sorted", "sortedcontainers"),
    ("ap_scheduler", "ApScheduler", "apscheduler"),
)


def available() -> tuple[list[type[Implementation]], list[str]]:
    """What can be measured here, and a note for each peer that cannot."""
    found, notes = [], []
    for module, name, needs in ALL:
        try:
            found.append(getattr(import_module(f"implementations.{module}"), name))
        except ImportError as error:
            if needs is None:
                raise
            notes.append(f"{needs} is left out, it cannot be imported ({error}); to have it: pip install {needs}")
    return found, notes
