"""hwheel.ExpiringDict with several threads, at a fork, and under Ctrl-C."""

import random
import threading
import time

import pytest

from hwheel import ExpiringDict
from invariants import check_invariants
from sampling import search_seconds
from waiting import eventually as wait_for


@pytest.mark.usefixtures("many_switches")
def test_each_entry_of_many_threads_ends_once(make_timer):
    """Each pair expired, or was popped or replaced. Values are unique, so they identify the pairs."""
    timer = make_timer()
    expired, taken, put = [], [], []
    d = ExpiringDict(0.02, timer=timer, on_expire=expired.extend)
    give_up = time.monotonic() + search_seconds(1.5)

    def work(number):
        chance = random.Random(number)
        count = 0
        while time.monotonic() < give_up:
            key = (chance.randrange(200), number % 2)
            what = chance.randrange(6)
            if what < 3:
                count += 1
                value = (number, count)
                if d.setdefault(key, value, ttl=chance.uniform(0.001, 0.03)) == value:
                    put.append(value)
            elif what == 3:
                value = d.pop(key, None)
                if value is not None:
                    taken.append(value)
            elif what == 4:
                d.touch(key, chance.uniform(0.001, 0.03))
            else:
                [*d.items()], d.get(key), d.expires_in(key)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: len(d) == 0 and len(expired) + len(taken) == len(put), "the end of all entries")
    assert sorted([value for _, value in expired] + taken) == sorted(put)
    check_invariants(d)


@pytest.mark.parametrize("executor", ["own", "inline", "pool"])
def test_nothing_expires_early_on_any_executor(make_timer, executor):
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(2) if executor == "pool" else None
    timer = make_timer(executor={"own": None, "inline": "inline", "pool": pool}[executor])
    early, ended = [], []

    def look(pairs):
        now = timer.time()
        early.extend(deadline - now for _, deadline in pairs if now < deadline)
        ended.extend(pairs)

    d = ExpiringDict(1, timer=timer, on_expire=look)
    chance = random.Random(1)
    for i in range(2000):
        ttl = chance.uniform(0.001, 0.3)
        d.set(i, timer.time() + ttl, ttl=ttl)
    wait_for(lambda: len(ended) == 2000, "the end of all entries")
    assert early == [] and len(d) == 0
    timer.close()
    if pool is not None:
        pool.shutdown()


SLOW = """
from hwheel import ExpiringDict
hold, began, calls = threading.Event(), threading.Event(), []

def slow(pairs):
    calls.extend(pairs)
    began.set()
    hold.wait(60)
"""


def test_set_does_not_wait_for_a_running_on_expire(ends_well):
    ends_well(
        SLOW
        + """
timer = SystemTimer()
d = ExpiringDict(0.01, timer=timer, on_expire=slow)
d["a"] = 1
began.wait(60)
d["b"] = 2
time.sleep(0.05)
assert "b" not in d
hold.set()
eventually(lambda: calls == [("a", 1), ("b", 2)] and len(d) == 0)
timer.close()
"""
    )


@pytest.mark.parametrize("fork", ["drop", "keep"])
def test_entries_expire_in_a_forked_child(ends_well, fork):
    ends_well(
        f"""
from hwheel import ExpiringDict
calls = []
timer = SystemTimer(fork={fork!r})
d = ExpiringDict(3, timer=timer, on_expire=calls.extend)
d["parent's"] = 1
d.set("far", 2, ttl=3600)

def child():
    assert dict(d) == {{"parent's": 1, "far": 2}}
    set_at = timer.time()
    d["child's"] = 3
    eventually(lambda: len(d) == 1)
    assert timer.time() - set_at >= 3
    expected = [("parent's", 1), ("child's", 3)] if {fork!r} == "keep" else [("child's", 3)]
    eventually(lambda: calls == expected)
    assert dict(d) == {{"far": 2}}
    timer.close()

in_child(child)
eventually(lambda: len(d) == 1)
assert calls == [("parent's", 1)]
in_child(lambda: (d.touch("far", 0.01), eventually(lambda: not len(d)), timer.close()))
timer.close()
"""
    )


def test_entries_expire_in_a_child_that_only_reads(ends_well):
    ends_well(
        """
from hwheel import ExpiringDict
d = ExpiringDict(0.1)
d["a"] = 1

def child():
    assert d.get("b") is None
    eventually(lambda: len(d) == 0)

in_child(child)
eventually(lambda: len(d) == 0)
"""
    )


def test_fork_in_on_expire(ends_well):
    ends_well(
        """
from hwheel import ExpiringDict
calls, children = [], []

def forks(pairs):
    calls.extend(pairs)
    if not children:
        children.append(os.fork())

timer = ManualTimer()
d = ExpiringDict(10, timer=timer, on_expire=forks)
d.update(a=1, b=2)
timer.advance(10)
d["c"] = 3
timer.advance(10)
assert calls == [("a", 1), ("b", 2), ("c", 3)] and len(d) == 0
if children == [0]:
    os._exit(0)
assert os.waitpid(children[0], 0)[1] == 0
"""
    )


def test_ctrl_c_at_any_point_keeps_the_dict_consistent(ends_well):
    """Python handles signals only in Python code: comparisons of keys, on_expire, a callable clock."""
    ends_well(
        """
import itertools, random
from hwheel import ExpiringDict

class Key:
    def __init__(self, number):
        self.number = number
    def __hash__(self):
        return 7
    def __eq__(self, other):
        step()
        return self.number == other.number

class Interrupt(KeyboardInterrupt):
    pass

left = 0
def step():
    global left
    left -= 1
    if left == 0:
        raise Interrupt

now = 1000
def clock():
    step()
    return now

for at in range(1, 150):
    told = []
    def on_expire(pairs):
        told.extend(pairs)
        step()
    timer = SystemTimer(clock=clock, reaper=False, executor="inline", on_error=lambda task, error: None)
    d = ExpiringDict(1, timer=timer, on_expire=on_expire)
    put, gone = set(), set()
    left = at
    for number in range(6):
        key = Key(number % 4)
        try:
            d.set(key, number, ttl=1 + number % 2)
            put.add(number)
        except Interrupt:
            pass
    left = 0
    before = {value for value in d.values()}
    assert before <= set(range(6)) and len(d) == len(before)
    left = max(1, at - 60)
    now += 5000
    for _ in range(4):
        try:
            timer.advance_clock(0)
        except Interrupt:
            pass
    left = 0
    d.get("x")
    for _ in range(3):
        timer.advance_clock(0)
    assert {value for _, value in told} == before and len(told) == len(before), (at, told, before)
    assert len(d) == 0
    d["a"] = 1
    now += 1000
    timer.advance_clock(0)
    assert len(d) == 0
    timer.close()
"""
    )
