"""A batch whose first timers fall due, and are reported, while call_many is still adding the last."""

import threading
from array import array

from hwheel import SystemTimer

COUNT = 1_000_000


def test_what_on_error_cancels_is_all_that_has_not_run(executor):
    ran, cancelled, reported = [], [], threading.Event()

    def fail(indices):
        ran.append(len(indices))
        raise RuntimeError("the first timers are enough")

    def cancel(batch, error):
        cancelled.append(batch.cancel())
        reported.set()

    with SystemTimer("batch", executor=executor, on_error=cancel) as timer:
        delays_ms = array("q", [0] + [60_000] * (COUNT - 1))
        batch = timer.call_many(delays_ms, fail)
        assert reported.wait(60)
        assert batch.pending == 0
        assert sum(ran) + sum(cancelled) == COUNT
        assert list(batch.indices()) == []
        stats = timer.stats()
        assert (stats.pending, stats.expired, stats.cancelled) == (0, sum(ran), sum(cancelled))
