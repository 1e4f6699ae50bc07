"""use_huge_pages(): CPython's small objects lie in huge pages, and go back to the system."""

import os
import sysconfig
from pathlib import Path

import pytest

from programs import output_of

SWITCH = Path("/sys/kernel/mm/transparent_hugepage/enabled")
FILL = """
import gc, os, subprocess, sys, hwheel
from pathlib import Path

def in_huge_pages():
    lines = Path("/proc/self/smaps").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages")) // 1024

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20

def fill():
    timer = hwheel.ManualTimer()
    return timer, [timer.call_later(i / 7, print, i) for i in range(300_000)]

def use(timer, tasks):
    for task in tasks[::2]:
        assert task.cancel()
    assert len(timer) == 150_000
    assert [task.args for task in tasks[1:11:2]] == [(1,), (3,), (5,), (7,), (9,)]
"""

pytestmark = pytest.mark.skipif(
    not SWITCH.exists()
    or "[never]" in SWITCH.read_text()
    or sysconfig.get_config_var("Py_GIL_DISABLED") == 1
    or os.environ.get("PYTHONMALLOC", "").startswith("malloc"),
    reason="this system has no huge pages, or this CPython no arenas",
)


def test_objects_made_afterwards_lie_in_huge_pages_and_others_live_on(run_script):
    ended = run_script(
        FILL
        + """
before = fill()
assert hwheel.use_huge_pages() and hwheel.use_huge_pages()
small = in_huge_pages()
after = fill()
assert in_huge_pages() - small > 30, (small, in_huge_pages())
use(*before)
use(*after)
del before, after
gc.collect()
use(*fill())
"""
    )
    assert ended == (0, "", "")


def test_what_is_given_up_goes_back_to_the_system(run_script):
    ended = run_script(
        FILL
        + """
assert hwheel.use_huge_pages()
empty = resident()
things = fill()
full = resident()
del things
gc.collect()
left = resident() - empty
assert full - empty > 30 and left < (full - empty) / 3, (empty, full, left)
"""
    )
    assert ended == (0, "", "")


def test_when_the_first_64_mib_are_full_there_are_more_and_they_go_back_to_the_system(run_script):
    ended = run_script(
        FILL
        + """
assert hwheel.use_huge_pages()
empty = resident()
many = [bytes([i % 256]) * 400 for i in range(350_000)]
full = resident()
assert all(each == bytes([i % 256]) * 400 for i, each in enumerate(many))
del many
left = resident() - empty
assert full - empty > 128 and left < (full - empty) / 3, (empty, full, left)
use(*fill())
"""
    )
    assert ended == (0, "", "")


def test_the_environment_asks_for_them_at_the_first_import():
    megabytes = [
        int(output_of("-c", FILL + "things = fill()\nprint(in_huge_pages())", env={"HWHEEL_HUGE_PAGES": asked}))
        for asked in ("1", "0")
    ]
    assert megabytes[0] - megabytes[1] > 30


@pytest.mark.parametrize("malloc", ["malloc", "malloc_debug", "debug"])
def test_without_arenas_it_says_so(malloc):
    told = output_of("-c", "import hwheel; print(hwheel.use_huge_pages())", env={"PYTHONMALLOC": malloc})
    assert told == f"{malloc == 'debug'}\n"


def test_a_process_that_may_have_none_is_told_so():
    told = output_of(
        "-c",
        """
import ctypes
PR_SET_THP_DISABLE = 41
assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0
import hwheel
print(hwheel.use_huge_pages(), hwheel.use_huge_pages())
""",
    )
    assert told == "False False\n"


def test_the_child_of_a_fork_uses_them_and_leaves_the_parent_s_alone(run_script):
    ended = run_script(
        FILL
        + """
hwheel.use_huge_pages()
things = fill()
child = os.fork()
if child == 0:
    use(*things)
    del things
    use(*fill())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
use(*things)
"""
    )
    assert ended == (0, "", "")
