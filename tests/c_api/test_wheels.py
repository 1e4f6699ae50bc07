"""The wheel of the C API, function by function."""

import os
from pathlib import Path

import pytest

from extensions import compile_extension, import_extension
from hwheel.c_api import get_include
from programs import run_python
from threads import run_concurrently

LAST = 2**63 - 1


def test_cancel_reports_whether_the_entry_was_pending(wheels):
    wheel = wheels.Wheel()
    wheel.add(1, 10)
    assert [wheel.cancel(1), wheel.cancel(1)] == [1, 0]
    assert (wheel.advance(10), len(wheel)) == (0, 0)


def test_move_needs_a_pending_entry_and_add_an_idle_one(wheels):
    wheel = wheels.Wheel()
    assert wheel.move(1, 10) == wheels.NOT_PENDING
    assert [wheel.add(1, 10), wheel.add(1, 5)] == [wheels.OK, wheels.PENDING]
    assert wheel.move(1, 20) == wheels.OK
    assert [wheel.advance(19), wheel.advance(20)] == [0, 1]


@pytest.mark.parametrize("tick", [1, 1000])
def test_time_out_of_range_changes_nothing(wheels, tick):
    wheel = wheels.Wheel(tick)
    wheel.add(1, 5000)
    assert [wheel.add(2, -1), wheel.move(1, -1), wheel.advance(-1), wheel.reserve(-1)] == [wheels.BAD_TIME] * 4
    if tick > 1:
        assert [wheel.add(2, LAST), wheel.move(1, LAST)] == [wheels.BAD_TIME] * 2
    assert wheel.add(3, LAST - tick + 1) == wheels.OK
    assert (len(wheel), wheel.check()) == (2, None)
    assert (wheel.advance(5000), wheel.called) == (1, [1])
    assert (wheel.advance(LAST), wheel.called) == (1, [1, 3])


@pytest.mark.parametrize(
    ("tick", "wheel_size", "now"), [(0, 20, 0), (-1, 20, 0), (1, 1, 0), (1, 2**21, 0), (1, 20, -1)]
)
def test_create_refuses_invalid_arguments(wheels, tick, wheel_size, now):
    with pytest.raises(ValueError, match="NULL"):
        wheels.Wheel(tick, wheel_size, now)


def test_callback_that_adds_itself_late_does_not_block_the_advance(wheels):
    wheel = wheels.Wheel()
    wheel.on_call = lambda number: wheel.add(number, 0)
    wheel.add(1, 10)
    assert [wheel.advance(10), wheel.next(), wheel.advance(10), wheel.advance(10)] == [1, 10, 1, 1]


def test_callback_may_cancel_and_move_entries_of_its_tick(wheels):
    wheel = wheels.Wheel()
    answers = []

    def on_call(number):
        if number == 0:
            answers.extend([wheel.cancel(1), wheel.move(2, 50), wheel.move(3, 10), wheel.cancel(0)])

    wheel.on_call = on_call
    for number in range(5):
        wheel.add(number, 10)
    assert (wheel.advance(10), wheel.called, answers) == (2, [0, 4], [1, wheels.OK, wheels.OK, 0])
    assert (wheel.advance(10), wheel.called[2:]) == (1, [3])  # moved to a deadline that has passed
    assert (wheel.advance(50), wheel.called[3:]) == (1, [2])


def test_advance_clear_and_destroy_are_refused_in_a_callback(wheels):
    wheel = wheels.Wheel()
    answers = []
    wheel.on_call = lambda number: answers.extend([wheel.advance(99), wheel.clear(), wheel.destroy()])
    wheel.add(1, 10)
    wheel.add(2, 11)
    assert (wheel.advance(10), answers) == (1, [wheels.BUSY] * 3)
    assert (wheel.advance(11), wheel.destroy()) == (1, wheels.OK)


def test_advance_to_an_earlier_time_does_nothing(wheels):
    wheel = wheels.Wheel()
    wheel.advance(100)
    wheel.add(1, 60)
    assert (wheel.advance(50), wheel.now(), wheel.called) == (0, 100, [])
    assert (wheel.advance(100), wheel.called) == (1, [1])


def test_cleared_wheel_remains_usable(wheels):
    wheel = wheels.Wheel(1, 4, 100)
    for number, deadline in enumerate([500, 40, 101, 500, 10**9, 90]):
        wheel.add(number, deadline)
    added = []
    wheel.on_call = lambda number: added.append(wheel.add(number + 10, 100 + number))
    assert (wheel.clear(), wheel.called, added) == (6, [1, 5, 2, 0, 3, 4], [wheels.OK] * 6)
    wheel.on_call = None
    assert (len(wheel), wheel.check(), wheel.advance(105)) == (6, None, 6)
    assert wheel.called[6:] == [10, 11, 12, 13, 14, 15]


def test_clear_after_a_limit_has_the_order_of_advance(wheels):
    called = []
    for goes_on in (lambda wheel: wheel.advance(5), lambda wheel: wheel.clear()):
        wheel = wheels.Wheel(1, 20)
        for number in range(3):
            wheel.add(number, 5)
        assert wheel.advance(5, 2) < 3
        wheel.add(3, 4)  # late, and added after the entries that the limit has left
        goes_on(wheel)
        called.append(wheel.called)
    assert called == [[0, 1, 2, 3]] * 2


def test_entry_after_an_empty_advance_is_in_the_finest_bucket(wheels):
    wheel = wheels.Wheel(1, 20)
    wheel.advance(10**9 + 7)
    wheel.add(1, 10**9 + 20)
    assert wheel.next() == 10**9 + 20  # a coarser bucket would begin earlier


def test_check_finds_an_overwritten_entry(wheels):
    wheel = wheels.Wheel()
    wheel.add(1, 30)
    wheel.add(2, 30)
    assert wheel.check() is None
    before = wheel.swap_first_word(2, 0)
    assert wheel.check() == "a link is not symmetric"
    wheel.swap_first_word(2, before)
    assert wheel.check() is None


def test_out_of_memory_changes_nothing_and_reserved_levels_need_no_memory(wheels):
    testcapi = pytest.importorskip("_testcapi")
    wheel, reserved = wheels.Wheel(1, 4), wheels.Wheel(1, 4, 10**6)
    wheel.add(1, 2)
    assert reserved.add(1, 10**6) == reserved.reserve(10**9) == wheels.OK
    reserved.add(2, 10**6 + 3)
    testcapi.set_nomemory(0, 0)
    try:
        answers = wheel.move(1, 10**6), reserved.move(2, 10**6 + 10**9), wheel.reserve(10**6)
    finally:
        testcapi.remove_mem_hooks()
    assert answers == (wheels.NO_MEMORY, wheels.OK, wheels.NO_MEMORY)
    assert (wheel.check(), wheel.advance(2)) == (None, 1)
    assert (reserved.advance(10**6 + 10**9 - 1), reserved.advance(10**6 + 10**9)) == (1, 1)
    assert wheel.add(1, 10**6) == wheels.OK


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork()")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_has_its_own_copy(wheels):
    wheel = wheels.Wheel()
    for number in range(100):
        wheel.add(number, number * 100)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if wheel.advance(9900) == 100 and wheel.called == [*range(100)] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert (wheel.advance(9900), wheel.called) == (100, [*range(100)])


# --- threads ----------------------------------------------------------------------------------------------------------


def test_wheels_in_separate_threads_without_the_gil(hammer):
    calls = []
    for first in range(0, 12, 4):
        run_concurrently(*[lambda seed=first + i: calls.append(hammer.hammer(seed, 4000)) for i in range(4)])
    assert len(calls) == 12 and min(calls) > 500


# --- versions ---------------------------------------------------------------------------------------------------------


IMPORTER = """
#include <Python.h>
#include "hwheel.h"
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "importer", NULL, -1, NULL, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_importer(void) { return hwheel_import() == NULL ? NULL : PyModule_Create(&module); }
"""


def with_header(tmp_path, before, after):
    """Compile an extension with a modified hwheel.h."""
    text = (Path(get_include()) / "hwheel.h").read_text(encoding="utf-8")
    assert text.count(before) == 1
    (tmp_path / "hwheel.h").write_text(text.replace(before, after), encoding="utf-8")
    (tmp_path / "importer.c").write_text(IMPORTER, encoding="utf-8")
    (tmp_path / "built").mkdir()
    return compile_extension(tmp_path / "importer.c", tmp_path / "built", str(tmp_path))


def test_extension_of_this_version_is_imported(tmp_path):
    same = with_header(tmp_path, "HWHEEL_API_VERSION 1", "HWHEEL_API_VERSION 1")
    assert import_extension(same).__name__ == "importer"


def test_extension_of_another_version_is_refused_at_import(tmp_path):
    other = with_header(tmp_path, "HWHEEL_API_VERSION 1", "HWHEEL_API_VERSION 2")
    with pytest.raises(ImportError, match="version 2 of hwheel's C API, .* has version 1; compile it again"):
        import_extension(other)


def test_extension_that_needs_a_newer_api_is_refused(tmp_path):
    end = "} hwheel_api;"
    newer = with_header(tmp_path, end, f"    int (*of_next_year)(hwheel_wheel *wheel);\n{end}")
    with pytest.raises(ImportError, match="more of hwheel's C API .* install a newer one"):
        import_extension(newer)


def test_import_error_if_hwheel_has_no_c_api(hammer):
    script = "import hwheel_core, sys; del hwheel_core._core.C_API; sys.path.insert(0, sys.argv[1]); import hammer"
    ended = run_python("-c", script, Path(hammer.__file__).parent)
    assert ended.status == 1
    assert "ImportError: the installed hwheel has no C API; install a newer one" in ended.err
