"""Callbacks of tasks that tests dump. A dump refers to a callback by its name."""

from hwheel import ManualTimer, TimerTask

NOW = 1_800_000_000
RAN = []


def note(*args, **kwargs):
    RAN.append((args, kwargs) if kwargs else args)


def full_timer():
    """Return a timer with a task of every kind that can be dumped."""
    timer = ManualTimer()
    timer.call_later(5, note, "later")
    timer.call_at(7, note, "at", 1, 2)
    timer.add(TimerTask(3000, note, "task", key="word"))
    timer.group().call_later(4, note, "group")
    timer.call_every(2, note, "every")
    return timer
