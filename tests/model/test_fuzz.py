"""The targets of fuzz/: on the inputs that were kept, and on some random ones, they find nothing; in wrong subjects
they find what is wrong."""

import importlib
import sys
from pathlib import Path

import pytest

import exploring
from hwheel import ManualTimer, TimingWheel

sys.path.append(str(Path(__file__).parents[2] / "fuzz"))
from corpus import KEPT, kept

FUZZ = KEPT.parent
NAMES = sorted(path.stem for path in (FUZZ / "targets").glob("*.py"))


def target(name):
    if name == "state":
        pytest.importorskip("pyspark")
    return importlib.import_module(f"targets.{name}")


def some_inputs(count):
    dice = exploring.dice_of(11)
    return [dice.randbytes(dice.randrange(300)) for _ in range(exploring.times(count))]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_found(name):
    run = target(name).run
    inputs = kept(name)
    assert len(inputs) >= 5
    assert sum(run(data) for data in inputs) >= len(inputs)
    for data in some_inputs(30 if name in ("logs", "columns") else 200):
        run(data)


class Losing(TimingWheel):
    def poll(self, now_ms):
        return super().poll(now_ms)[:2]


class OutOfOrder(TimingWheel):
    def poll(self, now_ms):
        return super().poll(now_ms)[::-1]


class Early(TimingWheel):
    def poll(self, now_ms):
        return super().poll(min(now_ms + self.tick_ms, 2**63 - 1))


class DeafToCancels(ManualTimer):
    def call_later(self, delay, callback, *args):
        super().call_later(delay, callback, *args)
        return super().call_later(delay, callback, *args)


class Hasty(ManualTimer):
    def call_later(self, delay, callback, *args):
        return super().call_later(delay / 2, callback, *args)


class Forgetful(ManualTimer):
    def call_many(self, delays_ms, callback):
        return super().call_many(delays_ms, lambda indices: callback(indices[1:]))


@pytest.mark.parametrize("wrong", [Losing, OutOfOrder, Early, DeafToCancels, Hasty, Forgetful])
def test_what_is_wrong_is_found_by_the_inputs_that_are_kept(wrong, monkeypatch):
    subject = "wheel" if issubclass(wrong, TimingWheel) else "timer"
    run = target(subject).run
    monkeypatch.setattr(target(subject), wrong.__base__.__name__, wrong)
    with pytest.raises(AssertionError):
        for data in kept(subject):
            run(data)


def test_rows_that_nobody_has_put_in_are_found(monkeypatch):
    state = target("state")
    monkeypatch.setattr("hwheel.spark.arrow.checksum", lambda data: b"same")
    monkeypatch.setattr(state, "CHUNK", state.to_chunk(state.ROWS))
    at = state.CHUNK.index(b"abb")
    assert at < 192 or at >> 8 < 32  # see tape.number
    place = [at] if at < 192 else [192 + (at >> 8), at & 255]
    with pytest.raises(AssertionError, match="rows that nobody has put in"):
        state.run(bytes([0, ord("c"), *place]))
