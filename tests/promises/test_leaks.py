"""The report of `nox -s leaks` separates leaks of the core from those of other modules."""

import subprocess
import sys
from pathlib import Path

OTHERS = """\
Direct leak of 300 byte(s) in 3 object(s) allocated from:
    #0 0x7f in __interceptor_malloc asan_malloc_linux.cpp:69
    #1 0x7f in gc_alloc Modules/gcmodule.c:2290
    #2 0x7f in initumath (/lib/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so+0x1)
"""
OURS = """\
Indirect leak of 48 byte(s) in 1 object(s) allocated from:
    #0 0x7f in __interceptor_malloc asan_malloc_linux.cpp:69
    #1 0x7f in __pyx_f_11hwheel_core_5_core_part_new hwheel_core/batch/batch.pxi:99
    #2 0x7f in method_vectorcall Objects/descrobject.c:1
"""
NOTE = """\
Direct leak of 24 byte(s) in 1 object(s) allocated from:
    #0 0x7f in __interceptor_malloc asan_malloc_linux.cpp:69
    #1 0x7f in raw_malloc Modules/_tracemalloc.c:260
    #2 0x7f in traceback_new Modules/_tracemalloc.c:452
    #3 0x7f in tracemalloc_raw_calloc Modules/_tracemalloc.c:796
    #4 0x7f in __pyx_f_11hwheel_core_5_core_timer_new hwheel_core/timer/timer.pxi:7
"""


def leaks(folder):
    program = Path(__file__).with_name("leaks.py")
    return subprocess.run([sys.executable, program, folder], capture_output=True, text=True, check=False)


def test_leaks_of_the_core_are_shown_and_others_counted(tmp_path):
    (tmp_path / "report.1").write_text(f"==1==ERROR\n\n{OTHERS}\n{OURS}\nSUMMARY: AddressSanitizer\n")
    (tmp_path / "report.2").write_text(f"==2==ERROR\n\n{OTHERS}\nSUMMARY: AddressSanitizer\n")
    done = leaks(tmp_path)
    assert done.returncode == 1
    assert OURS.strip() in done.stdout and "gc_alloc" not in done.stdout
    assert "leaks of the core: 1; of the interpreter and other modules: 2, in 2 processes" in done.stdout


def test_without_a_leak_of_the_core_the_status_is_0(tmp_path):
    (tmp_path / "report.1").write_text(f"{OTHERS}\n{NOTE}\n")
    done = leaks(tmp_path)
    assert done.returncode == 0
    assert "leaks of the core: 0; of the interpreter and other modules: 2, in 1 processes" in done.stdout


def test_without_a_report_the_status_is_1(tmp_path):
    assert leaks(tmp_path).returncode == 1
