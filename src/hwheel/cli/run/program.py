"""A script or a module, run as Python itself runs it."""

import builtins
import os
import pkgutil
import runpy
import sys
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType, TracebackType


def run_program(words: list[str], is_module: bool) -> None:
    """Run a program as ``__main__``. Its exceptions pass through, and its tracebacks begin with its own frames.

    Args:
        words: The name of a module, or the path of a script, a directory, or an archive; then its arguments.
        is_module: True for the name of a module.
    """
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        vars(main)["__annotations__"] = {}
    try:
        if is_module:
            sys.argv = ["-m", *words[1:]]
            set_first_path(os.getcwd())
            runpy._run_module_as_main(words[0])  # type: ignore[attr-defined]  # as `python -m` does
            return
        sys.argv = words
        path = os.path.abspath(words[0])
        if pkgutil.get_importer(path) is not None:  # a directory or an archive
            # Python adds it to sys.path even in safe mode, in which there is no folder of this command to replace.
            sys.path[: not sys.flags.safe_path] = [path]
            runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
            return
        set_first_path(os.path.dirname(os.path.realpath(words[0])))
        exec(load_script(main, os.path.join(os.getcwd(), words[0])), vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        hide_own_frames(error.__traceback__)
        raise


def set_first_path(path: str) -> None:
    """Replace the folder of this command in sys.path."""
    if not sys.flags.safe_path:
        sys.path[0] = path


def load_script(main: ModuleType, path: str) -> CodeType:
    """Return the code of a script, and set the names that Python sets in its module."""
    code: CodeType | None
    loader: SourceFileLoader | SourcelessFileLoader
    if path.endswith(".pyc"):
        loader = SourcelessFileLoader("__main__", path)
        code = loader.get_code("__main__")
    else:
        loader = SourceFileLoader("__main__", path)
        code = compile(loader.get_data(path), path, "exec", dont_inherit=True)
    vars(main).update(__file__=path, __loader__=loader, __cached__=None)
    assert code is not None
    return code


def hide_own_frames(trace: TracebackType | None) -> None:
    """Make sys.excepthook show an exception without the frames of this module."""
    own_file = run_program.__code__.co_filename
    while trace is not None and trace.tb_frame.f_code.co_filename == own_file:
        trace = trace.tb_next
    hook = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        hook(kind, error.with_traceback(trace), trace)

    sys.excepthook = show
