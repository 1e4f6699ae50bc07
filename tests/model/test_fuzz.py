"""The fuzzing targets find nothing in the library, and find planted faults."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sampling
from hwheel import ManualTimer, TimingWheel

sys.path.append(str(Path(__file__).parents[2] / "tools" / "fuzz"))
from corpus import KEPT, kept
from plain import build, planted

FUZZ = KEPT.parent
NAMES = sampling.at_least(5, sorted(path.stem for path in (FUZZ / "targets").glob("*.py")))


# Inputs of the plain half that found a fault which no other test finds: a timer of a batch was lost that stood, in what
# was put back, behind one that was not due any more since the clock was set back.
FOUND = [bytes.fromhex("d260d407e3e60100000c195dba58190100000c0c0c0c0c")]


def target(name):
    if name == "state":
        pytest.importorskip("pyspark")
    return importlib.import_module(f"targets.{name}")


def some_inputs(count):
    dice = sampling.seeded_random(11)
    return [dice.randbytes(dice.randrange(300)) for _ in range(sampling.scaled(count))]


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


@pytest.fixture(scope="module")
def plain_program(tmp_path_factory):
    """The target `plain` with faults, which are asleep until they are asked for."""
    pytest.importorskip("Cython")
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("needs Linux and a C compiler")
    return build.build(tmp_path_factory.mktemp("plain"), planted.changes())


@pytest.fixture(scope="module")
def plain_inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    for number, data in enumerate([*kept("plain"), *FOUND, *some_inputs(200)]):
        (folder / f"{number:04}").write_bytes(data)
    return sorted(folder.iterdir())


def tried(program, fault, inputs):
    # Without a sanitizer's allocator, which `make sanitize` preloads: the program is not built with one, and that
    # allocator alone does not see what is written behind memory, as the C library's does when the memory is given back.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [program, str(fault), *inputs]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env=environment)


def test_nothing_is_found_in_the_plain_half(plain_program, plain_inputs):
    assert len(kept("plain")) >= 5
    done = tried(plain_program, 0, plain_inputs)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{len(plain_inputs)} inputs, ")


@pytest.mark.parametrize("fault", planted.FAULTS)
def test_a_plain_half_that_is_wrong_is_found_by_the_inputs_that_are_kept(plain_program, plain_inputs, fault):
    done = tried(plain_program, [*planted.FAULTS].index(fault) + 1, plain_inputs[: len(kept("plain"))])
    assert done.returncode < 0, done  # by a signal, abort()'s or of memory that is not the program's


def test_rows_that_nobody_has_put_in_are_found(monkeypatch):
    state = target("state")
    monkeypatch.setattr("hwheel.spark.arrow.checksum", lambda data: b"same")
    monkeypatch.setattr(state, "CHUNK", state.to_chunk(state.ROWS))
    at = state.CHUNK.index(b"abb")
    assert at < 192 or at >> 8 < 32  # see tape.number
    place = [at] if at < 192 else [192 + (at >> 8), at & 255]
    with pytest.raises(AssertionError, match="rows that nobody has put in"):
        state.run(bytes([0, ord("c"), *place]))
