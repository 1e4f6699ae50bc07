"""The targets of tools/fuzz and tools/plain agree with the library on random inputs, and find planted faults."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sampling

sys.path.append(str(Path(__file__).parents[2] / "tools" / "fuzz"))
sys.path.append(str(Path(__file__).parents[2] / "tools" / "plain"))
import plain_build
import plain_faults

TOOLS = Path(__file__).parents[2] / "tools"
TARGETS = sorted(path.stem for path in (TOOLS / "fuzz" / "targets").glob("*.py"))


def target(name):
    if name == "state":
        pytest.importorskip("pyspark")
    return importlib.import_module(f"targets.{name}")


def random_inputs(count):
    random = sampling.seeded_random(11)
    return [random.randbytes(random.randrange(300)) for _ in range(sampling.scaled(count))]


@pytest.mark.parametrize("name", TARGETS)
def test_library_agrees_with_the_model(name):
    inputs = random_inputs(500 if name == "state" else 50)
    assert sum(target(name).run(data) for data in inputs) >= len(inputs) >= 5


@pytest.fixture(scope="module")
def plain_program(tmp_path_factory):
    """The plain half with all planted faults, none of them active."""
    pytest.importorskip("Cython")
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("needs Linux and a C compiler")
    return plain_build.build(tmp_path_factory.mktemp("plain"), plain_faults.planted())


def run_plain(program, *arguments):
    # A sanitizer that is preloaded for the interpreter would replace the allocator of the C library. Here, only that
    # allocator detects writes past the end of a block.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env=environment)


def test_plain_half_agrees_with_the_model(plain_program):
    done = run_plain(plain_program, "random", 0, sampling.SEED or 1, sampling.scaled(10_000))
    assert (done.returncode, done.stderr) == (0, "")
    inputs, operations = (int(words.split()[0]) for words in done.stdout.split(", "))
    assert inputs == sampling.scaled(10_000) and operations > 100 * inputs


@pytest.mark.parametrize("fault", plain_faults.FAULTS)
def test_a_planted_fault_is_found(plain_program, fault):
    done = run_plain(plain_program, "random", [*plain_faults.FAULTS].index(fault) + 1, 1, 10_000)
    assert done.returncode < 0, done  # killed by abort() or by an invalid access


def test_altered_rows_are_found(monkeypatch):
    state = target("state")
    monkeypatch.setattr("hwheel.spark.arrow.checksum", lambda data: b"same")
    monkeypatch.setattr(state, "CHUNK", state.to_chunk(state.ROWS))
    at = state.CHUNK.index(b"abb")
    assert at < 192 or at >> 8 < 32  # see tape.number
    place = [at] if at < 192 else [192 + (at >> 8), at & 255]
    with pytest.raises(AssertionError, match="altered rows"):
        state.run(bytes([0, ord("c"), *place]))
