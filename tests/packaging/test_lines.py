"""The coverage report maps lines of generated C to lines of Cython."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools" / "coverage"))
from reasons import names, reasons, whole_files

ROOT = Path(__file__).parents[2]
C = """\
static void one(void) {

  /* "hwheel_core/wheel/queue.pxi":24
 *     while at > 0:
 *         break             # <<<<<<<<<<<<<<
 */
  while (at > 0) {
    break;

    /* "hwheel_core/wheel/queue.pxi":30
 *     return             # <<<<<<<<<<<<<<
 */
    goto __pyx_L0;
  }
  __pyx_L4_break:;
  behind_the_loop();

  /* "hwheel_core/timer/timer.pxi":5
 * x = 1             # <<<<<<<<<<<<<<
 */
  x = 1;

  /* function exit code */
  leave();
}
other();
"""


def test_a_line_of_c_belongs_to_the_line_that_it_was_made_of(tmp_path):
    pytest.importorskip("coverage")
    from compiled import lines_of_c

    file = tmp_path / "_core.c"
    file.write_text(C)
    text = C.splitlines()
    found = [
        (text[number - 1].strip(), file, line) for number, file, line in lines_of_c(file) if text[number - 1].strip()
    ]
    queue, timer = "hwheel_core/wheel/queue.pxi", "hwheel_core/timer/timer.pxi"
    assert found == [
        ("while (at > 0) {", queue, 24),
        ("break;", queue, 24),
        ("goto __pyx_L0;", queue, 30),
        ("}", queue, 30),
        ("x = 1;", timer, 5),
    ]


def test_a_line_is_named_by_its_file_its_function_and_its_text(tmp_path):
    file = tmp_path / "one.pxi"
    file.write_text(
        "cdef int* one(int x,\n              int y) nogil:\n    return x\n\n\nclass Two:\n    def f(self):\n        x\n"
    )
    assert names(tmp_path, file) == {
        1: "one.pxi one: cdef int* one(int x,",
        2: "one.pxi one: int y) nogil:",
        3: "one.pxi one: return x",
        6: "one.pxi Two: class Two:",
        7: "one.pxi f: def f(self):",
        8: "one.pxi f: x",
    }


def test_a_reason_is_one_of_a_line_that_is_there():
    known = set()
    for name in {name.split(" ")[0].rstrip(":") for name in reasons()}:
        known |= {*names(ROOT, ROOT / name).values()}
    assert {*reasons()} <= known
    assert all((ROOT / file).exists() for file in whole_files())
