"""Keys and values of an ExpiringDict that run code: in comparisons, hashes, and finalizers."""

import functools
import random
import time

import pytest

from containers import HookedKey
from invariants import check_invariants
from threads import errors_in_threads


@pytest.fixture(autouse=True)
def remove_hook():
    yield
    HookedKey.hook = None


def test_colliding_keys_are_distinguished(timer, make):
    d = make(10)
    for i in range(50):
        d[HookedKey(i)] = i
    assert [d[HookedKey(i)] for i in range(50)] == [*range(50)]
    del d[HookedKey(20)]
    assert HookedKey(20) not in d and len(d) == 49
    timer.advance(10)
    assert len(d) == 0


def test_error_in_a_comparison_or_hash_changes_nothing(make):
    class Bad:
        def __hash__(self):
            raise ZeroDivisionError

    d = make(10)
    d[HookedKey(1)] = 1
    for use in USES:
        with pytest.raises(ZeroDivisionError):
            use(d, Bad())

    def fail():
        raise ArithmeticError

    HookedKey.hook = fail
    for use in USES:
        with pytest.raises(ArithmeticError):
            use(d, HookedKey(2))
    HookedKey.hook = None
    assert [(key.number, value) for key, value in d.items()] == [(1, 1)]
    for use in USES:
        with pytest.raises(TypeError, match="unhashable"):
            use(d, [])


USES = [
    lambda d, key: d[key],
    lambda d, key: d.get(key),
    lambda d, key: key in d,
    lambda d, key: d.set(key, 1),
    lambda d, key: d.touch(key),
    lambda d, key: d.pop(key, None),
    lambda d, key: d.setdefault(key, 1),
    lambda d, key: d.expires_in(key),
]


def test_nan_is_found_by_identity_only(make):
    d = make(10)
    nan = float("nan")
    d[nan] = 1
    assert d[nan] == 1 and float("nan") not in d


def test_expiry_neither_hashes_nor_compares(timer, make):
    expired = []
    d = make(10, on_expire=expired.extend)
    keys = [HookedKey(i) for i in range(20)]
    for key in keys:
        d[key] = key.number

    def fail():
        raise ArithmeticError

    HookedKey.hook = fail
    timer.advance(10)
    assert [value for _, value in expired] == [*range(20)]


@pytest.mark.parametrize("seed", range(30))
def test_comparison_that_changes_the_dict_keeps_it_consistent(timer, make, seed):
    chance = random.Random(seed)
    told = []
    d = make(10, on_expire=told.append if seed % 2 else None, maxsize=[None, 12][seed // 2 % 2], refresh=seed % 5 == 0)
    depth = []

    def meddle():
        if len(depth) < 2 and chance.random() < 0.5:
            depth.append(1)
            try:
                what = chance.randrange(7)
                if what == 0:
                    d.clear()
                elif what == 1:
                    timer_advance()
                elif what == 2 and len(d):
                    d.popitem()
                elif what == 3:
                    d.update({i: i for i in range(40)})  # the table grows
                elif what == 4:
                    for i in range(40):
                        d.pop(i, None)
                else:
                    chance.choice(USES[3:7])(d, HookedKey(chance.randrange(8)))
            finally:
                depth.pop()

    def timer_advance():
        try:
            timer.advance(chance.choice([0.5, 6, 20]))
        except RuntimeError:
            pass  # advance() is running

    HookedKey.hook = meddle
    for _ in range(200):
        try:
            chance.choice(USES)(d, HookedKey(chance.randrange(8)))
        except KeyError:
            pass
        check_invariants(d)
        numbers = [key.number for key in d if isinstance(key, HookedKey)]
        assert len(numbers) == len({*numbers}), "each key is there once"
    HookedKey.hook = None
    timer.advance(100)
    assert len(d) == 0 and [*d] == []


def again(d, first):
    del d[first]
    d[first] = "again"


@pytest.mark.parametrize(
    "meddle",
    [
        lambda d, first: d.set(HookedKey(3), "by the comparison"),
        lambda d, first: d.update({HookedKey(3): "by the comparison"} | {i: i for i in range(40)}),  # the table grows
        lambda d, first: (d.update({i: i for i in range(40)}), again(d, first)),
        again,
    ],
)
@pytest.mark.parametrize("at", range(3))
def test_key_is_present_once_even_if_a_comparison_changes_the_dict(make, meddle, at):
    d = make(10)
    first = HookedKey(1)
    d[first] = "first"
    d[HookedKey(2)] = "second"
    comparisons = iter(range(100))

    def meddle_once():
        if next(comparisons) == at:
            meddle(d, first)

    HookedKey.hook = meddle_once
    assert HookedKey(2) in d
    for number in 3, 2:
        comparisons = iter(range(100))
        HookedKey.hook = meddle_once
        d[HookedKey(number)] = "in the end"
        HookedKey.hook = None
        assert d.pop(HookedKey(number)) == "in the end" and HookedKey(number) not in d


def test_setdefault_is_atomic_for_colliding_keys(make, many_switches):
    d = make(10)
    d[HookedKey(-1)] = None
    HookedKey.hook = lambda: time.sleep(0)
    answers = [[], []]

    def ask(mine):
        mine.extend(d.setdefault(HookedKey(number), object()) for number in range(30))

    assert errors_in_threads([functools.partial(ask, mine) for mine in answers]) == []
    assert answers[0] == answers[1] and len(d) == 31


class Ends:
    """A value that calls a function in its finalizer."""

    def __init__(self, then):
        self.then = then

    def __del__(self):
        self.then()


@pytest.mark.parametrize("how", ["expires", "replaced", "deleted", "popped", "cleared", "evicted"])
def test_finalizer_of_a_value_may_use_the_dict(timer, make, how):
    ends = []
    d = make(10, maxsize=5)

    def then():
        ends.append(len(d))
        d[f"after {len(ends)}"] = len(ends)
        d.pop("other", None)

    d["a"] = Ends(then)
    d["other"] = 1
    if how == "expires":
        timer.advance(10)
    elif how == "replaced":
        d["a"] = 2
    elif how == "deleted":
        del d["a"]
    elif how == "popped":
        d.pop("a")
    elif how == "cleared":
        d.clear()
    else:
        d.update({i: i for i in range(5)})
    assert len(ends) == 1 and "other" not in d
    check_invariants(d)


def test_finalizer_of_a_key_during_a_search_may_use_the_dict(make):
    """The comparison removes the entry. Its key is finalized during the search, and clears the dict."""
    d = make(10)

    class Dies(HookedKey):
        __hash__ = HookedKey.__hash__

        def __eq__(self, other):
            if d.pop(self.itself, None) is not None:
                self.itself = None
            return False

        def __del__(self):
            d.clear()
            d.update({i: i for i in range(100)})

    class Other:
        def __hash__(self):
            return 7

    dies = Dies(0)
    dies.itself = dies
    d[dies] = "dies"
    del dies
    d[Other()] = 1
    assert len(d) == 101
    check_invariants(d)


def test_clear_terminates_even_if_finalizers_add_entries(make):
    d = make(10)

    def then():
        if len(made) < 500:
            made.append(1)
            d[object()] = Ends(then)

    made = []
    for i in range(10):
        d[i] = Ends(then)
    d.clear()
    assert len(made) == 10
    made.extend(range(500))
    d.clear()
