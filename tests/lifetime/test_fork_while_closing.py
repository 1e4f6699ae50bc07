"""A fork while another thread closes the timer: what close() was taking out is in the child, too."""

import os

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

SCRIPT = """
import os, random, threading, time
from array import array
from hwheel import SystemTimer

class Closing(SystemTimer):
    def _give_back(self, tasks):        # from here on the parent's close() has everything in its hands
        self.has_everything = True

lost = 0
begin = time.monotonic()
for i in range({rounds}):
    if time.monotonic() - begin > 60:       # on a slow build beside other work a round takes some seconds
        break
    timer = Closing(fork="keep")
    timer.has_everything = False
    {add}
    closer = threading.Thread(target=timer.close)
    closer.start()
    time.sleep(random.random() * 0.03)
    pid = os.fork()
    if pid == 0:
        if timer.has_everything:
            os._exit(0)
        count = sum(len(one.indices()) if hasattr(one, "indices") else 1 for one in timer.close())
        stats = timer.stats()
        os._exit(count != {count} or stats.added != count or stats.pending != 0)
    lost += os.waitpid(pid, 0)[1] != 0
    closer.join()
assert lost == 0, lost
"""


@pytest.mark.parametrize(
    ("add", "count", "rounds"),
    [
        ("timer.call_many(array('q', [60_000]) * 1_000_000, print)", 1_000_000, 40),
        ("[timer.call_later(60, print) for _ in range(30_000)]", 30_000, 15),
    ],
    ids=["a batch", "tasks"],
)
def test_the_child_loses_nothing_that_the_parents_close_was_taking_out(run_script, add, count, rounds):
    assert run_script(SCRIPT.format(add=add, count=count, rounds=rounds)) == (0, "", "")
