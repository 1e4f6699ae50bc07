"""hwheel.threading.Timer: threading.Timer without a thread for each."""

from hwheel.threading.timer import Timer

__all__ = ["Timer"]
