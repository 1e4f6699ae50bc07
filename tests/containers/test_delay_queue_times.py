"""Exact deadlines of a DelayQueue in the cases that are difficult for a wheel.

An entry is moved while its slot is the current one, is added before the first entry, or is beyond the wheel.
"""

import tracemalloc

import pytest

from containers import take_due
from hwheel import DelayQueue


@pytest.fixture
def q(timer, request):
    yield DelayQueue(timer=timer)
    request.node.funcargs.pop("q", None)


# Steps with times in ms: `put ITEM DELAY`, `reset ITEM DELAY`, `remove ITEM`, `pass TIME`. `first ITEM` checks peek().
# `due ITEM ...` takes all due items and checks that they are these.
SCENARIOS = {
    "order is by deadline, then by put": """
        put c 3000, put a 1000, put a2 1000, put far 1e6, put b 2000, put a3 1000, pass 5000, put now 0, put past -10,
        due a a2 a3 b c now past, pass 1e6, put last 0, due far last""",
    "no delay": "put a 0, put b -1e9, put c 1e-6, pass 1, due a b c",
    "a reset behind an equal deadline": """
        put a 1000, put b 5000, put c 2000, reset a 2000, reset b 1000, pass 2000, due b c a""",
    "a reset of an expired item": "put a 1000, put b 1000, pass 1000, first a, reset a 1000, due b, pass 1000, due a",
    "a slot that was emptied in the previous turn": """
        put removed 50, remove removed, pass 70, put kept 44, due, pass 43, due, pass 1, due kept""",
    "an item before the first one": """
        put far 200, due, pass 80, put near 50, due, first near, pass 50, due near, pass 70, due far""",
    "an item in the past": "put later 200, due, pass 80, put past -100, due past, pass 120, due later",
    "an emptied queue": """
        put b 200, put a 100, put c 300, pass 100, due a, put again 0, due again, pass 100, due b,
        put again 0, due again, pass 100, due c""",
    "many resets": "put a 5," + "pass 4, reset a 5, due," * 200 + "pass 5, due a",
    "resets in turn": "put a 200, put b 250, reset a 300, reset b 350, reset a 400, pass 390, due b, pass 10, due a",
    "a reset of the first item to the front": """
        put a 200, put b 300, due, reset a 100, first a, pass 100, due a, pass 200, due b""",
    "a reset of the second item to the front": """
        put a 200, put b 300, due, reset b 100, first b, pass 100, due b, pass 200, due a""",
    "a reset of the first item to the end": """
        put a 200, put b 300, reset a 400, first b, pass 300, due b, pass 100, due a""",
    "a reset of an item in the past": "put a -100, put b 0, reset a 200, due b, pass 199, due, pass 1, due a",
    "a reset of an item in the past by four months": """
        put a -100, put b 0, reset a 1e10, due b, pass 9999999999, due, pass 1, due a""",
    # The item is in a slot of 64 ms that has begun, and has not been cascaded yet.
    "an earlier deadline in a slot that has begun": """
        pass 64, put a 150, put b 160, pass 130, due, reset a 10, pass 10, due a, pass 20, due b""",
    "a later deadline in a slot that has begun": """
        pass 64, put a 150, put b 160, pass 130, due, reset a 50, pass 10, due, pass 20, due b, pass 20, due a""",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(timer, q, name):
    keys = {}
    for step in SCENARIOS[name].split(","):
        what, *words = step.split()
        if what == "pass":
            timer.advance(float(words[0]) / 1000)
        elif what == "put":
            keys[words[0]] = q.put(words[0], float(words[1]) / 1000)
        elif what == "reset":
            deadline_s = timer.time() + float(words[1]) / 1000
            assert q.reset(keys[words[0]], float(words[1]) / 1000) and keys[words[0]].deadline == pytest.approx(
                deadline_s
            )
        elif what == "remove":
            assert q.remove(keys[words[0]]) == words[0]
        elif what == "first":
            assert q.peek() is keys[words[0]]
        else:
            assert what == "due" and take_due(q) == words, step
            assert not any(keys[item].pending for item in words)
    assert len(q) == 0 and not q.reset(keys.popitem()[1], 1)


@pytest.mark.parametrize("delay_ms", [63, 64, 65, 4096])
@pytest.mark.parametrize("look", [False, True])
def test_remove_at_the_edges_of_levels(timer, q, look, delay_ms):
    keys = [q.put(i, (delay_ms + i) / 1000) for i in range(3)]
    timer.advance(delay_ms / 1000)
    if look:
        assert q.peek() is keys[0]
    assert [q.remove(key) for key in keys] == [0, 1, 2]
    timer.advance(1)
    assert take_due(q) == [] and len(q) == 0


@pytest.mark.parametrize(
    "delay_ms", [1, 2, 63, 64, 65, 4095, 4096, 4097, 2**18 - 1, 2**18, 2**24 + 1, 2**36, 2**42 + 7]
)
def test_deadlines_at_the_edges_of_levels_are_exact(timer, q, delay_ms):
    for start in range(3):
        q.put("a", delay_ms / 1000)
        q.put("b", (delay_ms + 1) / 1000)
        timer.advance((delay_ms - 1) / 1000)
        assert take_due(q) == []
        timer.advance(0.001)
        assert take_due(q) == ["a"], start
        timer.advance(0.001)
        assert take_due(q) == ["b"]


def test_key_of_a_removed_item_never_names_another(timer, q):
    old = [q.put(i, 1) for i in range(100)]
    q.drain()
    new = [q.put(i, 1) for i in range(100)]
    assert not {*map(id, old)} & {*map(id, new)}
    for key in old:
        assert q.reset(key, 100) is False
        with pytest.raises(KeyError):
            q.remove(key)
    timer.advance(1)
    assert take_due(q) == [*range(100)]


def test_emptied_queue_keeps_only_the_memory_of_its_wheel(timer, q):
    q.put(0, 0)
    q.get()
    tracemalloc.start()
    try:
        for _ in range(2):
            before = tracemalloc.get_traced_memory()[0]
            for i in range(30_000):
                q.put(None, i / 10)
            full = tracemalloc.get_traced_memory()[0]
            for _ in range(10_000):
                q.remove(q.peek())
            timer.advance(10_000)
            assert len(take_due(q)) == 20_000
            after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert full - before > 60 * 30_000 and after - before < 40_000
