"""What differs between systems stands in hwheel_core/platform/ alone, and each file there keeps its promises."""

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

# What the core may take from elsewhere: these are the same everywhere.
HEADERS = {"Python.h", "native.h", "platform/platform.h", "c_api/hwheel.h", "stdint.h"}
MODULES = {"libc.math", "libc.stdint", "libc.string"}
# Names of operating systems and compilers.
NAMES = r"""\b(?:pthread_\w+|\w*timespec|timeval|clock_\w*time\w*|CLOCK_(?:REALTIME|MONOTONIC|BOOTTIME)\w*|
nanosleep|usleep|eventfd|timerfd\w*|p?poll\((?!self)|p?select\(|epoll\w*|kqueue|kevent|pipe2?\(|fcntl\(|madvise|mmap|prctl|
sched_\w+|sigaction|SRWLOCK|HANDLE|DWORD|errno|_Py?OS_\w+|__linux__|__APPLE__|__unix__|_WIN32|_WIN64|MS_WINDOWS|
_MSC_VER|__GNUC__|__clang__|__builtin_\w+|__attribute__|__atomic_\w+|__sync_\w+|__declspec|__asm__|__int128|
_Interlocked\w+)"""
FOREIGN = re.compile(NAMES.replace("\n", ""))


def sources(core):
    """What is compiled, but for the folder in which systems may be named."""
    files = [*core.rglob("*.px*"), *core.rglob("*.pyx"), *core.rglob("*.h")]
    return sorted({file for file in files if file.relative_to(core).parts[0] != "platform"})


def code_of(file):
    """A file without comments and without what stands in strings other than the names of headers."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".h":
        return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'("""|\'\'\')(?:.|\n)*?\1', '""', text)
    return re.sub(r"(\"[^\"\n]*\"|'[^'\n]*')|#.*", lambda match: match[1] if match[1] else "", text)


def foreign(core):
    """Where the core names a system or a compiler outside of the folder for that."""
    for file in sources(core):
        code = code_of(file)
        headers = re.findall(r'^\s*#\s*include\s+[<"](.+)[>"]|cdef extern from "<?(.+?)>?"', code, re.MULTILINE)
        for header in {one or other for one, other in headers} - HEADERS:
            yield f"{file.relative_to(core)} takes {header}"
        for module in {*re.findall(r"cimport\s+((?:libc|posix)\.\w+)|from\s+((?:libc|posix)\.\w+)", code)}:
            if {*module} - {""} - MODULES:
                yield f"{file.relative_to(core)} takes {''.join(module)}"
        for name in sorted({*FOREIGN.findall(re.sub(r'"[^"\n]*"', '""', code))}):
            yield f"{file.relative_to(core)} names {name}"


def test_no_file_outside_of_the_folder_names_a_system_or_a_compiler():
    assert [*foreign(CORE)] == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("native.h", "#include <sys/eventfd.h>"),
        ("native.h", "static inline int leading(long x) { return __builtin_clzl(x); }"),
        ("native.h", "#ifdef __linux__\n#endif"),
        ("_core.pxd", 'cdef extern from "<pthread.h>" nogil:\n    pass'),
        ("timer/ready.pxi", "from posix.unistd cimport close"),
        ("timer/clock.pxi", "cdef timespec now"),
        ("loop/clock.pxi", "clock_gettime(1, NULL)"),
    ],
)
def test_a_system_that_is_named_elsewhere_is_found(file, line, tmp_path):
    shutil.copytree(CORE, tmp_path / "core")
    with (tmp_path / "core" / file).open("a", encoding="utf-8") as changed:
        changed.write(f"\n{line}\n")
    assert [*foreign(tmp_path / "core")] != []


def asked_for():
    """What the core asks of native.h and of the folder."""
    text = (CORE / "_core.pxd").read_text(encoding="utf-8")
    blocks = re.findall(r'^cdef extern from "native.h".*\n((?:    .*\n)+)', text, re.MULTILINE)
    return {*re.findall(r"\b(?:hw|HW)_\w+", "".join(blocks))}


def given_by(*files):
    """The functions, types and macros that headers define."""
    text = "\n".join(code_of(file) for file in files)
    functions = re.findall(r"^static inline [^(;]*?\b(hw_\w+)\(", text, re.MULTILINE)
    types = re.findall(r"^typedef \w+ (hw_\w+);|^} ?(?:__attribute__\(\(.*\)\) )?(hw_\w+);", text, re.MULTILINE)
    return {*functions, *("".join(one) for one in types), *re.findall(r"#define (HW_\w+)", text)}


def test_each_system_and_each_compiler_gives_all_that_the_core_asks_for():
    assert len(asked_for()) > 50
    for system in SYSTEMS.values():
        for compiler in COMPILERS.values():
            given = given_by(CORE / "native.h", *(CORE / "platform" / file for file in [*system, *compiler]))
            assert asked_for() - given == set(), (system, compiler)


def test_what_platform_h_explains_is_there():
    said = {*re.findall(r"hw_\w+", (CORE / "platform/platform.h").read_text(encoding="utf-8"))}
    for system in SYSTEMS.values():
        given = given_by(*(CORE / "platform" / file for file in [*system, "gnuc.h"]))
        assert said - given == set(), system


# --- with a compiler --------------------------------------------------------------------------------------------------

with_a_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform == "win32", reason="needs a C compiler of a POSIX system"
)


def compile_c(*arguments, compiler="cc"):
    done = subprocess.run([compiler, *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def headers_of(source, *options):
    """What a source includes, directly or not, but for itself."""
    rule = compile_c("-M", "-I", sysconfig.get_path("include"), *options, source)
    return {*rule.replace("\\\n", " ").split()[2:]}


@with_a_compiler
def test_the_rest_of_the_core_compiles_without_a_system(tmp_path):
    # A stub stands in the folder's place, which has a compiler's half and no system.
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
def test_the_files_of_this_machine_keep_their_promises(setting, tmp_path):
    if setting == "msvc.h" and sysconfig.get_platform() not in ("linux-x86_64", "linux-aarch64"):
        pytest.skip("the stub of its intrinsics is gcc's")
    program = tmp_path / "promises"
    options = [*WARNINGS, "-O2", "-D_GNU_SOURCE", "-pthread", *SETTINGS[setting]]
    compile_c(*options, "-I", CORE, HERE / "platform_test.c", "-o", program)
    done = subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("\nkept") > 25
    assert "BROKEN" not in done.stdout
