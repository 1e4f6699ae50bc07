"""ThreadSanitizer finds no data race in the plain half of the core, which no GIL protects."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools" / "plain"))
import plain_build
import plain_faults

pytest.importorskip("Cython")


def run_threads(program, seconds, seed=1):
    """Run the driver at fixed addresses: some kernels put programs where ThreadSanitizer's shadow memory has to be."""
    prefix = ["setarch", platform.machine(), "-R"] if shutil.which("setarch") else []
    command = [*prefix, str(program), "threads", str(seconds), str(seed)]
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env=environment)


@pytest.fixture(scope="module")
def sanitizer(tmp_path_factory):
    """Skip the test if programs with ThreadSanitizer cannot be built or run here."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("sanitizer")
    source, program = folder / "nothing.c", folder / "nothing"
    source.write_text("int main(void) { return 0; }\n")
    built = subprocess.run(["cc", "-fsanitize=thread", source, "-o", program], capture_output=True, check=False)
    if built.returncode or run_threads(program, 0).returncode:
        pytest.skip(f"the C compiler has no working ThreadSanitizer for {platform.machine()}")


def test_no_data_races(sanitizer, tmp_path):
    done = run_threads(plain_build.build_threads(tmp_path), 1)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "every one accounted for" in done.stdout


def test_missing_locks_are_found(sanitizer, tmp_path):
    program = plain_build.build_threads(tmp_path, plain_faults.without_locks("registry_leave"))
    # The first race ends the program. Its report does not always name the function, so several seeds are tried.
    for seed in range(1, 6):
        done = run_threads(program, 60, seed)
        assert done.returncode == 66, done
        assert "data race" in done.stderr
        if "registry_leave" in done.stderr:
            return
    pytest.fail(done.stderr)
