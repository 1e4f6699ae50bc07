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


def ended(folder, broken, seconds):
    program = run.build(folder, broken)
    return subprocess.run(
        run.command(program, seconds, 1),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"},
    )


def test_no_two_threads_of_the_plain_half_touch_anything_at_once(sanitized, tmp_path):
    done = ended(tmp_path, None, 1)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "every one accounted for" in done.stdout


def test_a_lock_that_is_left_out_is_found(sanitized, tmp_path):
    done = ended(tmp_path, "registry_leave", 60)
    assert done.returncode == 66, done
    assert "data race" in done.stderr
    # Where it is seen first: the list itself, or the memory of a timer that is still in it.
    assert any(name in done.stderr for name in ("registry_leave", "registry_enter", "PyMem_RawFree")), done.stderr
