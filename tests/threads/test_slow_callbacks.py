"""A slow callback holds up the executor that it runs on, and nothing else."""

import threading
import time

PATIENCE_S = 60


def test_a_slow_callback_does_not_delay_another_timer(make_timer, executor):
    slow, other = make_timer("slow", executor=executor), make_timer("other")
    release, entered, done = threading.Event(), threading.Event(), threading.Event()
    slow.call_later(0, lambda: (entered.set(), release.wait(PATIENCE_S)))
    try:
        assert entered.wait(PATIENCE_S)
        other.call_later(0.001, done.set)
        assert done.wait(PATIENCE_S)
    finally:
        release.set()


def test_what_falls_due_behind_a_slow_callback_can_still_be_cancelled(make_timer, eventually):
    timer = make_timer()
    release, entered, done = threading.Event(), threading.Event(), threading.Event()
    timer.call_later(0, lambda: (entered.set(), release.wait(PATIENCE_S)))
    try:
        assert entered.wait(PATIENCE_S)
        ran = []
        due = timer.call_later(0.001, ran.append, "cancelled")
        moved = timer.call_later(0.001, ran.append, "moved")
        kept = timer.call_later(0.001, ran.append, "kept")
        eventually(lambda: timer.time() * 1000 > kept.deadline_ms + 5)
        time.sleep(0.05)  # the reaper has them out of the wheel by now
        assert due.pending and kept.pending and moved.pending
        assert due.cancel() is True
        assert due.cancel() is False
        assert moved.reschedule(0.01) is True
        timer.call_later(0.1, done.set)
    finally:
        release.set()
    assert done.wait(PATIENCE_S)
    assert ran == ["kept", "moved"]


def test_the_reaper_goes_on_while_a_callback_of_the_default_executor_blocks(make_timer, eventually):
    # It is the reaper that moves what is far off down from level to level.
    timer = make_timer(wheel_size=2)
    release, entered = threading.Event(), threading.Event()
    timer.call_later(0, lambda: (entered.set(), release.wait(PATIENCE_S)))
    try:
        assert entered.wait(PATIENCE_S)
        before = timer.stats().cascaded
        timer.call_later(0.1, int)
        eventually(lambda: timer.stats().cascaded > before)
    finally:
        release.set()


def test_a_slow_callback_in_a_pool_leaves_the_other_threads_of_the_pool_free(make_timer, pool):
    timer = make_timer(executor=pool)
    release, entered, done = threading.Event(), threading.Event(), threading.Event()
    timer.call_later(0, lambda: (entered.set(), release.wait(PATIENCE_S)))
    try:
        assert entered.wait(PATIENCE_S)
        timer.call_later(0.001, done.set)
        assert done.wait(PATIENCE_S)
    finally:
        release.set()
