"""Only hwheel_core/platform/ depends on a system or a compiler, and each of its files does what platform.h says."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "hwheel_core"
HERE = Path(__file__).parent / "platforms"
SYSTEMS = {
    "linux": ["linux.h", "pthreads.h"],
    "posix": ["posix.h", "pthreads.h"],
    "windows": ["win32.h"],
}
COMPILERS = {"gcc": ["gnuc.h"], "msvc": ["msvc.h"]}
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Werror"]

# Headers and modules that are the same on every system.
HEADERS = {"Python.h", "native.h", "platform/platform.h", "c_api/hwheel.h", "stdint.h"}
MODULES = {"libc.math", "libc.stdint", "libc.stdlib", "libc.string"}
# Names of operating systems and compilers.
NAMES = r"""\b(?:pthread_\w+|\w*timespec|timeval|clock_\w*time\w*|CLOCK_(?:REALTIME|MONOTONIC|BOOTTIME)\w*|
nanosleep|usleep|eventfd|timerfd\w*|p?poll\((?!self)|p?select\(|epoll\w*|kqueue|kevent|pipe2?\(|fcntl\(|madvise|mmap|prctl|
sched_\w+|sigaction|SRWLOCK|HANDLE|DWORD|errno|_Py?OS_\w+|__linux__|__APPLE__|__unix__|_WIN32|_WIN64|MS_WINDOWS|
_MSC_VER|__GNUC__|__clang__|__builtin_\w+|__attribute__|__atomic_\w+|__sync_\w+|__declspec|__asm__|__int128|
_Interlocked\w+)"""
FOREIGN = re.compile(NAMES.replace("\n", ""))


def sources(core):
    """Return the sources outside of platform/."""
    files = [*core.rglob("*.px*"), *core.rglob("*.pyx"), *core.rglob("*.h")]
    return sorted({file for file in files if file.relative_to(core).parts[0] != "platform"})


def code_of(file):
    """Return a file without comments and docstrings."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".h":
        return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'("""|\'\'\')(?:.|\n)*?\1', '""', text)
    return re.sub(r"(\"[^\"\n]*\"|'[^'\n]*')|#.*", lambda match: match[1] if match[1] else "", text)


def foreign(core):
    """Yield every dependence on a system or a compiler outside of platform/."""
    for file in sources(core):
        code = code_of(file)
        headers = re.findall(r'^\s*#\s*include\s+[<"](.+)[>"]|cdef extern from "<?(.+?)>?"', code, re.MULTILINE)
        for header in {one or other for one, other in headers} - HEADERS:
            yield f"{file.relative_to(core)} includes {header}"
        for module in {*re.findall(r"cimport\s+((?:libc|posix)\.\w+)|from\s+((?:libc|posix)\.\w+)", code)}:
            if {*module} - {""} - MODULES:
                yield f"{file.relative_to(core)} imports {''.join(module)}"
        for name in sorted({*FOREIGN.findall(re.sub(r'"[^"\n]*"', '""', code))}):
            yield f"{file.relative_to(core)} names {name}"


def test_no_other_file_depends_on_a_system_or_a_compiler():
    assert [*foreign(CORE)] == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("native.h", "#include <sys/eventfd.h>"),
        ("native.h", "#ifdef __linux__\n#endif"),
        ("timer/ready.pxi", "from posix.unistd cimport close"),
        ("loop/clock.pxi", "clock_gettime(1, NULL)"),
    ],
)
def test_a_dependence_elsewhere_is_found(file, line, tmp_path):
    shutil.copytree(CORE, tmp_path / "core")
    with (tmp_path / "core" / file).open("a", encoding="utf-8") as changed:
        changed.write(f"\n{line}\n")
    assert [*foreign(tmp_path / "core")] != []


def used_names():
    """Return the names that the core uses from native.h and platform/."""
    text = (CORE / "_core.pxd").read_text(encoding="utf-8")
    blocks = re.findall(r'^cdef extern from "native.h".*\n((?:    .*\n)+)', text, re.MULTILINE)
    return {*re.findall(r"\b(?:hw|HW)_\w+", "".join(blocks))}


def defined_names(*files):
    """Return the functions, types, and macros that headers define."""
    text = "\n".join(code_of(file) for file in files)
    functions = re.findall(r"^static inline [^(;]*?\b(hw_\w+)\(", text, re.MULTILINE)
    types = re.findall(r"^typedef \w+ (hw_\w+);|^} ?(?:__attribute__\(\(.*\)\) )?(hw_\w+);", text, re.MULTILINE)
    return {*functions, *("".join(one) for one in types), *re.findall(r"#define (HW_\w+)", text)}


def test_every_system_and_compiler_defines_every_name_that_the_core_uses():
    assert len(used_names()) > 50
    for system in SYSTEMS.values():
        for compiler in COMPILERS.values():
            defined = defined_names(CORE / "native.h", *(CORE / "platform" / file for file in [*system, *compiler]))
            assert used_names() - defined == set(), (system, compiler)


def test_every_name_that_platform_h_documents_is_defined():
    documented = {*re.findall(r"hw_\w+", (CORE / "platform/platform.h").read_text(encoding="utf-8"))}
    for system in SYSTEMS.values():
        defined = defined_names(*(CORE / "platform" / file for file in [*system, "gnuc.h"]))
        assert documented - defined == set(), system


# --- with a compiler --------------------------------------------------------------------------------------------------

with_a_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform == "win32", reason="needs a C compiler of a POSIX system"
)


def compile_c(*arguments, compiler="cc"):
    done = subprocess.run([compiler, *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def headers_of(source, *options):
    """Return the headers that a source includes, directly or indirectly."""
    rule = compile_c("-M", "-I", sysconfig.get_path("include"), *options, source)
    return {*rule.replace("\\\n", " ").split()[2:]}


@with_a_compiler
def test_the_rest_of_the_core_compiles_without_a_system(tmp_path):
    # A stub replaces platform/: it has a compiler's header and no system's.
    stub = tmp_path / "platform"
    stub.mkdir()
    (stub / "platform.h").write_text(f'#include "{CORE / "platform/gnuc.h"}"\n', encoding="utf-8")
    shutil.copy(CORE / "native.h", tmp_path)
    (tmp_path / "rest.c").write_text('#include "native.h"\n', encoding="utf-8")
    (tmp_path / "python.c").write_text("#include <Python.h>\n", encoding="utf-8")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        pytest.skip("needs Python's headers")
    compile_c("-fsyntax-only", *WARNINGS, "-isystem", sysconfig.get_path("include"), tmp_path / "rest.c")
    more = headers_of(tmp_path / "rest.c") - headers_of(tmp_path / "python.c")
    assert {Path(header).name for header in more} == {"native.h", "platform.h", "gnuc.h"}


SETTINGS = {
    "as it is here": [],
    "posix.h": ["-DHWHEEL_POSIX"],
    "msvc.h": ["-D_MSC_VER=1940", "-I", HERE],
}


@with_a_compiler
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_files_for_this_machine_work(setting, tmp_path):
    if setting == "msvc.h" and sysconfig.get_platform() not in ("linux-x86_64", "linux-aarch64"):
        pytest.skip("the stub of the intrinsics needs gcc")
    program = tmp_path / "promises"
    options = [*WARNINGS, "-O2", "-D_GNU_SOURCE", "-pthread", *SETTINGS[setting]]
    compile_c(*options, "-I", CORE, HERE / "platform_test.c", "-o", program)
    done = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("\nok") > 25
    assert "FAILED" not in done.stdout
