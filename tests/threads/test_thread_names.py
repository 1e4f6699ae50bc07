"""The threads of a timer, their names, and when there are any."""

import threading

import pytest


def names(suffix):
    return sorted(thread.name for thread in threading.enumerate() if thread.name.endswith(suffix))


@pytest.mark.parametrize(
    ("executor", "reaper", "expected"),
    [
        (None, True, ["executor-mine", "reaper-mine"]),
        ("inline", True, ["reaper-mine"]),
        (None, False, ["executor-mine"]),
        ("inline", False, []),
    ],
)
def test_threads_are_named_after_the_timer_and_start_with_the_first_add(make_timer, executor, reaper, expected):
    timer = make_timer("mine", executor=executor, reaper=reaper)
    assert names("-mine") == []
    timer.call_later(3600, print)
    timer.call_later(3600, print)
    assert names("-mine") == expected
    timer.close()
    assert names("-mine") == []


def test_a_pool_needs_no_thread_but_the_reaper(make_timer, pool):
    timer = make_timer("mine", executor=pool)
    timer.call_later(3600, print)
    assert names("-mine") == ["reaper-mine"]


def test_callbacks_run_where_the_executor_says(make_timer, executor, eventually):
    timer = make_timer("mine", executor=executor)
    seen = []
    timer.call_later(0, lambda: seen.append(threading.current_thread().name))
    timer.call_later(0.01, lambda: seen.append(threading.current_thread().name))
    eventually(lambda: len(seen) == 2)
    if hasattr(executor, "submit"):
        assert all(name.startswith("pool") for name in seen)
    else:
        where = "reaper-mine" if executor == "inline" else "executor-mine"
        assert seen == [where, where]


def test_threads_do_not_keep_the_interpreter_alive(make_timer):
    timer = make_timer("mine")
    timer.call_later(3600, print)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.endswith("-mine"))


def test_many_first_adds_at_once_start_one_pair_of_threads(make_timer, many_switches):
    for _ in range(20):
        timer = make_timer("mine")
        start = threading.Barrier(4)

        def add(timer=timer, start=start):
            start.wait(60)
            timer.call_later(3600, print)

        adders = [threading.Thread(target=add) for _ in range(4)]
        for adder in adders:
            adder.start()
        for adder in adders:
            adder.join()
        assert names("-mine") == ["executor-mine", "reaper-mine"]
        assert len(timer) == 4
        timer.close()
