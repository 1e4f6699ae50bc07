"""hwheel.threading.Timer: threading.Timer without a thread per timer."""

from hwheel.threading.timer import Timer

__all__ = ["Timer"]
