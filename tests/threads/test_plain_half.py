"""The plain half of the core, which no GIL guards: threads of C over it, under ThreadSanitizer."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "plain"))
import run

pytest.importorskip("Cython")


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    """Whether a program that ThreadSanitizer watches can be made here, and runs."""
    folder = tmp_path_factory.mktemp("sanitized")
    source, program = folder / "nothing.c", folder / "nothing"
    source.write_text("int main(void) { return 0; }\n")
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("needs Linux and a C compiler")
    built = subprocess.run(["cc", "-fsanitize=thread", source, "-o", program], capture_output=True, check=False)
    if built.returncode or subprocess.run(run.command(program, 0, 0), capture_output=True, check=False).returncode:
        pytest.skip(f"the compiler of this {platform.machine()} has no ThreadSanitizer")


def ended(program, seconds, seed=1):
    return subprocess.run(
        run.command(program, seconds, seed),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"},
    )


def test_no_two_threads_of_the_plain_half_touch_anything_at_once(sanitized, tmp_path):
    done = ended(run.build(tmp_path), 1)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "every one accounted for" in done.stdout


def test_a_lock_that_is_left_out_is_found(sanitized, tmp_path):
    program = run.build(tmp_path, "registry_leave")
    # The first race that is seen ends the program. It may be one with the memory of a timer that is still in the list,
    # whose report does not name the function: then another seed brings up another one.
    for seed in range(1, 6):
        done = ended(program, 60, seed)
        assert done.returncode == 66, done
        assert "data race" in done.stderr
        if "registry_leave" in done.stderr:
            return
    raise AssertionError(done.stderr)
