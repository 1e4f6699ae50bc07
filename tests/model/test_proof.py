"""The model searches of tools/proof hold within small bounds, find planted errors, and match the real wheel."""

import random
import sys
from functools import partial
from pathlib import Path

import pytest

import sampling
from hwheel import TimerTask, TimingWheel

sys.path.append(str(Path(__file__).parents[2] / "tools" / "proof"))
import wheel_order
from search import Broken, search
from wheel_order import count


@pytest.mark.parametrize(
    "rules", [wheel_order.Rules(size=2, levels=3, tasks=4), wheel_order.Rules(size=3, levels=2, tasks=3)], ids=str
)
def test_every_state_of_a_small_wheel(rules):
    assert search(wheel_order.START, partial(wheel_order.steps_from, rules=rules)) > 1000


@pytest.mark.parametrize("wrong", [{"finer_first": False}, {"backwards": False}], ids=str)
def test_the_search_finds_wrong_orders(wrong):
    with pytest.raises(Broken, match="out of order"):
        search(wheel_order.START, partial(wheel_order.steps_from, rules=wheel_order.Rules(size=2, tasks=2, **wrong)))


def test_the_model_places_tasks_like_the_wheel():
    chance = random.Random(sampling.SEED or 1)
    for _ in range(40):
        rules = wheel_order.Rules(size=chance.choice([2, 3]), levels=3)
        wheel, model = TimingWheel(1, rules.size, 0), wheel_order.START
        for _ in range(60):
            time = model.time + chance.randrange(rules.tick(4))
            after = wheel_order.add(model, time, rules)
            if chance.random() < 0.6 and after is not None:
                assert wheel.add(TimerTask(0), time) is (count(after) > count(model))
                model = after
            elif model.buckets:
                now = chance.randrange(model.time, model.time + rules.tick(4))
                came = []
                model = advanced(model, now, rules, came)
                assert [task.deadline_ms for task in wheel.poll(now)] == came
            assert buckets_of(wheel) == {(when, level): [at for at, _ in held] for when, level, held in model.buckets}


def advanced(model, now, rules, came):
    """Return the model after an advance. `came` receives the times of the dispatched tasks."""
    while model.flush or model.due or any(bucket[0] <= now for bucket in model.buckets):
        step, after = next(wheel_order.advance(model, rules))
        if "dispatched" in step:
            came += [time for time, _ in model.due]
        model = after
    return model


def buckets_of(wheel):
    return {
        (bucket.expiration_ms, level): [task.deadline_ms for task in bucket.tasks]
        for level, one in enumerate(wheel.snapshot().levels, 1)
        for bucket in one.buckets
        if bucket.tasks
    }
