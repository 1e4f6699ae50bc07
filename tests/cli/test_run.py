"""hwheel run: a program behaves as without, except that its timers are on the wheel, also in its children."""

import importlib.util
import json
import py_compile
import re
import signal
import subprocess
import sys
import zipfile

import pytest

from programs import environment, output_of, run_python
from servers import live_snapshot

RUN = ("-m", "hwheel", "run")
# Users do not set PYTHONSAFEPATH. Without it, sys.path is the same as theirs.
USUAL = {"PYTHONSAFEPATH": ""}

# --- as without -------------------------------------------------------------------------------------------------------

SURROUNDINGS = """
import json, sys
loader = __loader__ and type(__loader__).__name__
print(json.dumps([sys.argv, sys.path, __name__, __file__, __package__, __spec__ and __spec__.name, loader,
                  type(__builtins__).__name__, sys.modules["__main__"].__dict__ is globals(), sys.stdout.errors,
                  sorted(globals())]))
"""
PICKLES = """
import pickle, threading
class Mine: pass
def late():
    threading.main_thread().join()
    print(type(pickle.loads(pickle.dumps(Mine()))))
threading.Thread(target=late).start()
print(type(pickle.loads(pickle.dumps(Mine()))))
"""
PICKLED_NAMES = """
import asyncio, pickle, sched, threading
for made in (asyncio.SelectorEventLoop, asyncio.Timeout, asyncio.timeout, asyncio.timeout_at, asyncio.wait_for,
             threading.Timer, sched.scheduler):
    print(pickle.loads(pickle.dumps(made)) is made)
"""
PROGRAMS = {
    "surroundings": SURROUNDINGS,
    "the end of the file": "print('over')",
    "a status": "import sys; sys.exit(3)",
    "a message": "import sys; sys.exit('the reason')",
    "os._exit": "import os; os._exit(4)",
    "an error": "def fail():\n    return 1 / 0\nfail()",
    "an error with a cause": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise OSError('why') from error",
    "a group of errors": "raise ExceptionGroup('two', [ValueError(1), OSError(2)])",
    "an error of a library": "import json\njson.loads('{')",
    "no valid syntax": "def (",
    "a missing module": "import hwheel.nothing",
    "an extra's error": "from hwheel.extras import MissingExtraError\nraise MissingExtraError('none')",
    "BrokenPipeError": "raise BrokenPipeError(32, 'broken')",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "Ctrl-C": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)",
    "Ctrl-C in a loop": (
        "import asyncio, os, signal\nasync def main():\n    asyncio.get_running_loop().call_later(0.01, os.kill,"
        " os.getpid(), signal.SIGINT)\n    try:\n        await asyncio.sleep(60)\n    finally:\n        print('end')\n"
        "try:\n    asyncio.run(main())\nexcept KeyboardInterrupt:\n    print('interrupted')"
    ),
    "SIGTERM": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "a hook": (
        "import sys, traceback\n"
        "sys.excepthook = lambda kind, _, trace: print(kind, traceback.extract_tb(trace)[-1])\n1 / 0"
    ),
    "exit handlers": (
        "import atexit, threading\natexit.register(print, 'exit')\n"
        "print('main')\nthreading.Timer(0.01, print, ['timer']).start()"
    ),
    "no encoding for a letter": "import sys\nsys.stdout.reconfigure(encoding='ascii')\nprint('\\xe9')",
    "input": "print(input()[::-1])",
    "pickles": PICKLES,
    "pickled names": PICKLED_NAMES,
    "warnings": "import warnings\nwarnings.warn('old', DeprecationWarning)",
}


def both(*arguments, folder, **options):
    """Run Python with these arguments, then with ``hwheel run``, and return both results."""
    options = {"cwd": folder, "env": USUAL, "input": "hello\n", **options}
    return [run_python(*arguments, **options), run_python(*RUN, *arguments, **options)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("form", ["script", "module"])
def test_a_program_behaves_the_same_as_without_hwheel_run(name, form, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAMS[name])
    words = ["program.py"] if form == "script" else ["-m", "program"]
    without, run = both(*words, "-m", "--live", "--", "--help", folder=tmp_path)
    assert run == without
    assert PROGRAMS[name] != SURROUNDINGS or json.loads(run[1])[0][1:] == ["-m", "--live", "--", "--help"]


def test_tracebacks_of_a_script_have_no_frames_of_the_command(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAMS["an error"])
    done = [run_python(*start, "program.py", cwd=tmp_path) for start in ((), RUN)]
    assert done[0] == done[1] and "ZeroDivisionError" in done[1].err


@pytest.mark.parametrize("safe_path", ["", "1"])
@pytest.mark.parametrize("form", ["folder", "archive", "link", "compiled", "elsewhere", "package", "submodule"])
def test_every_way_to_name_a_program(form, safe_path, tmp_path):
    package = tmp_path / "sub" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import sys; print(sys.argv)")
    (package / "module.py").write_text(SURROUNDINGS)
    main = package / "__main__.py"
    main.write_text(SURROUNDINGS)
    (tmp_path / "link.py").symlink_to(main)
    py_compile.compile(str(main), str(tmp_path / "main.pyc"))
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.write(main, "__main__.py")
    words = {
        "folder": ["sub/package"],
        "archive": ["app.zip"],
        "link": ["link.py"],
        "compiled": ["main.pyc"],
        "elsewhere": ["./sub/package/../package/__main__.py"],
        "package": ["-m", "sub.package"],
        "submodule": ["-m", "sub.package.module"],
    }[form]
    env = {"PYTHONSAFEPATH": safe_path, **({"PYTHONPATH": str(tmp_path)} if safe_path else {})}
    without, run = both(*words, "argument", folder=tmp_path, env=env)
    assert run == without and run[0] == 0, run


@pytest.mark.parametrize("words", [["-m", "nothing"], ["-m", "nothing.here"], ["-m", "json.scanner.no"], ["."]])
def test_a_program_that_does_not_exist(words, tmp_path):
    without, run = both(*words, folder=tmp_path)
    assert run == without and run[0] == 1


def test_a_signal_from_outside(tmp_path):
    # A signal right before a long sleep would take effect only after it.
    program = "import time\nprint('ready', flush=True)\nwhile True:\n    time.sleep(0.01)"
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, *RUN, "program.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGINT
    assert re.findall('File "(.*)",', err) == [str(tmp_path / "program.py")]
    assert err.endswith("\nKeyboardInterrupt\n")


CHILDREN = """
import asyncio, concurrent.futures, multiprocessing, sched, sys, threading
from asyncio import timeout

class Mine:
    pass

def describe(depth, method):
    loop = asyncio.new_event_loop()
    found = [__name__, sys.argv, Mine.__module__, type(loop).__name__, timeout is asyncio.timeout,
             *(one.__module__ for one in (timeout, threading.Timer, sched.scheduler))]
    loop.close()
    return [found, *(children(method) if depth else [])]

def children(method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(describe, 1 if multiprocessing.parent_process() is None else 0, method).result()

if __name__ == "__main__":
    for method in multiprocessing.get_all_start_methods():
        print(children(method))
"""


@pytest.mark.parametrize("words", [["program.py"], ["-m", "program"]], ids=["script", "module"])
def test_children_behave_the_same_as_without_hwheel_run_but_on_the_wheel(words, tmp_path):
    (tmp_path / "program.py").write_text(CHILDREN)
    without, run = both(*words, "argument", folder=tmp_path, env={**USUAL, "PYTHONWARNINGS": "ignore"})
    assert without[::2] == run[::2] == (0, "")
    assert without[1].count("'argument'") == run[1].count("'argument'") == 2 * run[1].count("\n") >= 6
    on_the_wheel = without[1].replace("_UnixSelectorEventLoop", "WheelUnixSelectorEventLoop")
    for before, after in {"'asyncio.timeouts'": "'hwheel_core._core'", "'threading'": "'hwheel'"}.items():
        on_the_wheel = on_the_wheel.replace(before, after)
    assert run[1] == on_the_wheel.replace("'sched'", "'hwheel.sched'")


# --- on the wheel -----------------------------------------------------------------------------------------------------

KINDS = """
import asyncio, json, pickle, sched, threading, unittest, warnings
from asyncio import tasks, timeouts

def name(of):
    return f"{of.__module__}.{of.__qualname__}"

async def kind():
    loop = asyncio.get_running_loop()
    handle = loop.call_later(60, print)
    handle.cancel()
    bases = type(loop).__mro__
    return [name(type(handle)), name(bases[2 if bases[1].__name__ == "WheelTimersMixin" else 0])]

def run_on(loop):
    try:
        return loop.run_until_complete(kind())
    finally:
        loop.close()

class Case(unittest.IsolatedAsyncioTestCase):
    async def test(self):
        found["IsolatedAsyncioTestCase"] = await kind()

class Subclass(asyncio.SelectorEventLoop):
    pass

warnings.simplefilter("ignore", DeprecationWarning)
found = {
    "run": asyncio.run(kind()),
    "new_event_loop": run_on(asyncio.new_event_loop()),
    "policy": run_on(asyncio.get_event_loop_policy().new_event_loop()),
    "SelectorEventLoop": run_on(asyncio.SelectorEventLoop()),
    "subclass": run_on(Subclass())[:1],
}
Case("test").debug()
if hasattr(asyncio, "EventLoop"):
    found["EventLoop"] = run_on(asyncio.EventLoop())
for package in ("uvloop", "zuvloop"):
    try:
        module = __import__(package)
    except ImportError:
        continue
    found[package] = module.run(kind())
    loop = module.new_event_loop()
    assert type(loop).__module__ == found[package][1].rpartition(".")[0]
    assert pickle.loads(pickle.dumps(type(loop))) is type(loop)
    found[f"{package}.new_event_loop"] = run_on(loop)
TIMEOUTS = ["timeout", "timeout_at", "Timeout"]
for module, names in {asyncio: [*TIMEOUTS, "wait_for"], tasks: ["wait_for"], timeouts: TIMEOUTS,
                      threading: ["Timer"], sched: ["scheduler"]}.items():
    found |= {f"{module.__name__}.{name}": getattr(module, name).__module__ for name in names}
print(json.dumps(found))
"""
SELECTOR = ["hwheel.asyncio.TimerHandle", "asyncio.unix_events._UnixSelectorEventLoop"]
OWN_LOOPS = {"uvloop": "uvloop.Loop", "zuvloop": "zuvloop._loop.EventLoop"}


def kinds(folder, *options):
    (folder / "program.py").write_text(KINDS)
    return json.loads(output_of(*RUN, *options, "program.py", cwd=folder))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "zuvloop"])
def test_every_timer_is_on_the_wheel(loop, tmp_path):
    expected = dict.fromkeys(("SelectorEventLoop", "subclass"), SELECTOR)
    default = SELECTOR
    for package, name in OWN_LOOPS.items():
        if importlib.util.find_spec(package):
            expected[package] = expected[f"{package}.new_event_loop"] = [SELECTOR[0], name]
    if loop != "asyncio":
        pytest.importorskip(loop)
        default = expected[loop]
    names = ("run", "new_event_loop", "policy", "IsolatedAsyncioTestCase")
    expected |= dict.fromkeys((*names, *(["EventLoop"] if sys.version_info >= (3, 13) else [])), default)
    found = kinds(tmp_path, "--loop", loop)
    modules = {name: found.pop(name) for name in [*found] if isinstance(found[name], str)}
    assert {name: kind[:1] if name == "subclass" else kind for name, kind in expected.items()} == found
    assert len(modules) == 10
    for name, module in modules.items():
        assert module.startswith("hwheel"), name


@pytest.mark.parametrize("only", ["asyncio", "threading", "sched", "threading,asyncio"])
def test_only_the_chosen_modules_are_replaced(only, tmp_path):
    found = kinds(tmp_path, "--only", only)
    for name, kind in found.items():
        part = name.partition(".")[0] if isinstance(kind, str) else "asyncio"
        assert ("hwheel" in str(kind)) == (part in only.split(",")), (name, kind)


LIVE = """
import sys, threading
timer = threading.Timer(60, print)
timer.start()
print("ready", flush=True)
input()
timer.cancel()
sys.exit(3)
"""


def test_the_live_page_shows_the_timers(tmp_path, short_path):
    (tmp_path / "program.py").write_text(LIVE)
    socket = short_path / "socket"
    command = [sys.executable, *RUN, "--live", socket, "program.py"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, cwd=tmp_path, env=environment()) as process:
        assert process.stdout.readline() == "ready\n"
        snapshot = live_snapshot(str(socket))
        process.communicate("over\n", timeout=60)
    assert snapshot["program"] == "program.py"
    assert [(timer["name"], timer["pending"]) for timer in snapshot["timers"]] == [("Timer", 1)]
    assert process.returncode == 3 and not socket.exists()


@pytest.mark.parametrize(("words", "error"), [
    (["nothing.py"], "cannot open 'nothing.py': No such file or directory"),
    (["--loop", "uvloop", "--only", "sched", "."], "--loop needs asyncio in --only"),
    (["--loop", "trio", "."], "argument --loop: invalid choice"),
    (["--only", "asyncio,time", "."], "argument --only: must be some of asyncio, threading, sched, not 'time'"),
    (["--only", "", "."], "must be some of asyncio, threading, sched, not ''"),
    (["--live", "nowhere/socket", "."], "--live: nowhere/socket: No such file or directory"),
    (["--unknown", "."], "unrecognized arguments: --unknown"),
    (["-m"], "PROGRAM"),
    ([], "PROGRAM"),
])  # fmt: skip
def test_a_bad_option_prints_one_line_and_returns_status_2(words, error, tmp_path):
    done = run_python(*RUN, *words, cwd=tmp_path)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1), done
    assert done.err.startswith("hwheel") and error in done.err


def test_a_loop_that_is_not_installed(tmp_path):
    code = "import sys; sys.modules['uvloop'] = None; from hwheel.cli.main import main; sys.exit(main())"
    done = run_python("-c", code, "run", "--loop", "uvloop", ".", cwd=tmp_path)
    assert done[:2] == (2, "") and done.err.endswith(": pip install uvloop\n") and done.err.count("\n") == 1
