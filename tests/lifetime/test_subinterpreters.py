"""Only the main interpreter of a process has hwheel. Any other is told so at the import, in whatever order they come,
and the main one's timers take no notice."""

import importlib.util

import pytest

from programs import output_of

PRIVATE = ["_interpreters", "_xxsubinterpreters"]  # from 3.13 on, and before
pytestmark = pytest.mark.skipif(
    not any(map(importlib.util.find_spec, PRIVATE)), reason="this Python makes no other interpreters"
)

OTHERS = """
import os, sys, threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def told(code, own_gil):
    # What another interpreter is told that runs the code; None: it succeeds.
    if sys.version_info >= (3, 13):
        other = interpreters.create("isolated" if own_gil else "legacy")
    else:
        other = interpreters.create(isolated=own_gil)
    try:
        answer = interpreters.run_string(other, code)
        return answer and f"{answer.type.__name__}: {answer.msg}"
    except interpreters.RunFailedError as error:
        return str(error)
    finally:
        interpreters.destroy(other)

def is_refused(module, own_gil):
    answer = told(f"import {module}", own_gil)
    assert "ImportError" in answer and "main interpreter" in answer, answer
    assert "docs/processes.md" in answer, answer

def works():
    from hwheel import SystemTimer
    ran = threading.Event()
    with SystemTimer() as timer:
        timer.call_later(0.001, ran.set)
        assert ran.wait(60)

assert told("import threading", True) is None
"""
UNCOUNTED = {"COVERAGE_PROCESS_CONFIG": ""}  # coverage.py begins in every interpreter, but can only in the main one
EACH = "for own_gil in (True, False):\n    for module in ('hwheel', 'hwheel.threading', 'hwheel_core'):\n        "


def test_who_tries_first_does_not_take_it_from_the_main_interpreter():
    assert output_of("-P", "-c", f"{OTHERS}\n{EACH}is_refused(module, own_gil)\nworks()\n", env=UNCOUNTED) == ""


def test_timers_of_the_main_interpreter_take_no_notice():
    program = f"""{OTHERS}
from hwheel import SystemTimer
timer = SystemTimer()
ran = []
done = threading.Event()
for i in range(1000):
    timer.call_later(i / 2000, ran.append, i)
timer.call_later(0.6, done.set)
{EACH}is_refused(module, own_gil)
assert done.wait(60) and ran == [*range(1000)]
timer.close()
works()
if hasattr(os, "fork"):
    if (child := os.fork()) == 0:
        works()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
    assert output_of("-P", "-W", "ignore::DeprecationWarning", "-c", program, env=UNCOUNTED) == ""


def test_a_timer_in_another_interpreter_that_imports_late_is_told_the_same():
    """In a thread of the interpreter, where it is not the module of the main program that imports."""
    program = f"""{OTHERS}
import hwheel
code = '''
import threading
said = []
def late():
    try:
        import hwheel
    except ImportError as error:
        said.append(str(error))
thread = threading.Thread(target=late)
thread.start()
thread.join()
raise ImportError(said[0])
'''
answer = told(code, False)
assert "main interpreter" in answer, answer
"""
    assert output_of("-P", "-c", program, env=UNCOUNTED) == ""
