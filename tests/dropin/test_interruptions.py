"""A Ctrl-C at any line of hwheel.Timer: nothing is lost, no lock stays taken."""

import sys
import threading
from pathlib import Path

from hwheel import Timer

sys.path.append(str(Path(__file__).parent.parent / "helpers"))
from interrupting import each_line  # noqa: E402


def test_start_cancel_and_join():
    def scenario():
        ran = []
        timer = Timer(3600, ran.append, [1])
        waits = threading.Event()

        def use():
            timer.start()
            waits.set()
            timer.cancel()
            timer.join(60)
            return True

        yield use
        timer.cancel()
        if timer._task is not None:
            timer.join(60)
            assert not timer.is_alive()
        assert not ran
        other = Timer(0, ran.append, [2])       # no lock of the module stays taken
        other.start()
        other.join(60)
        assert ran == [2]

    assert each_line(scenario, ("hwheel/threading.py",)) > 10
