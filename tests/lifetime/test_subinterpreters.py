"""Only the main interpreter of a process can import hwheel. In any other, the import raises ImportError.

The order of the imports does not matter, and the timers of the main interpreter are not affected.
"""

import importlib.util

import pytest

from programs import output_of

PRIVATE = ["_interpreters", "_xxsubinterpreters"]  # the name since 3.13, and the name before
pytestmark = pytest.mark.skipif(
    not any(map(importlib.util.find_spec, PRIVATE)), reason="this Python has no subinterpreters"
)

OTHERS = """
import os, sys, threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def error_of(code, own_gil):
    # Run the code in another interpreter, and return its error or None.
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
    answer = error_of(f"import {module}", own_gil)
    assert "ImportError" in answer and "main interpreter" in answer, answer
    assert "docs/processes.md" in answer, answer

def works():
    from hwheel import SystemTimer
    ran = threading.Event()
    with SystemTimer() as timer:
        timer.call_later(0.001, ran.set)
        assert ran.wait(60)

assert error_of("import threading", True) is None
"""
UNCOUNTED = {"COVERAGE_PROCESS_CONFIG": ""}  # coverage.py works in the main interpreter only
EACH = "for own_gil in (True, False):\n    for module in ('hwheel', 'hwheel.threading', 'hwheel_core'):\n        "


def test_a_refused_import_does_not_affect_the_main_interpreter():
    program = f"""{OTHERS}
{EACH}is_refused(module, own_gil)
works()
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


def test_an_import_in_a_thread_of_another_interpreter_is_refused():
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
answer = error_of(code, False)
assert "main interpreter" in answer, answer
"""
    assert output_of("-P", "-c", program, env=UNCOUNTED) == ""
