"""The core for Windows, as far as that can be seen from Linux: compiled by MinGW, run under Wine.

First it runs platform_test.c. Then it compiles the whole core against a CPython for Windows, which Maven downloads, and
runs tests of it. Steps whose programs are missing are skipped with a message. All files are in build/windows/.

Wine is not Windows: it shows that the right functions are called in the right order, not how fast they are.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CORE = ROOT / "hwheel_core"
MADE = ROOT / "build" / "windows"
# CPython's headers set this only for Microsoft's compiler.
FOR_64_BITS = "-DMS_WIN64"
WARNINGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]

WINE = shutil.which("wine") or shutil.which("wine64")

# The last NumPy for the C library of Wine 8. Arrow needs a newer one, so tests that import it are left out.
PACKAGES = ["pytest>=8", "hypothesis>=6.100", "colorama", "numpy==1.26.4"]
TESTS = ["tests/unit", *(f"tests/threads/test_{name}.py" for name in ("without_reaper", "deadlines", "exactly_once"))]


def run(*command, **options):
    """Run a command and fail if it fails."""
    print("$", *(Path(part).name if isinstance(part, Path) else part for part in command), flush=True)
    subprocess.run([*map(str, command)], check=True, **options)


def wine(program, *arguments):
    """Run a program for Windows. Wine needs a pipe for its output, not a terminal."""
    settings = {"WINEPREFIX": str(MADE / "wine"), "WINEDEBUG": "-all", "PYTHONDONTWRITEBYTECODE": "1"}
    print("$ wine", program.name, *arguments, flush=True)
    with subprocess.Popen(
        [WINE or "wine", str(program), *arguments],
        cwd=ROOT,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        for line in process.stdout:
            print(line.decode(errors="replace").rstrip(), flush=True)
    if process.returncode:
        raise SystemExit(f"{program.name} ended with {process.returncode}")


def windows_python():
    """Return the folder of a CPython for Windows, or None without Maven."""
    folder = MADE / "python"
    if not folder.exists():
        if shutil.which("mvn") is None:
            return None
        jars = MADE / "jars"
        run("mvn", "-q", "-B", "-f", HERE / "windows.xml", "dependency:copy-dependencies", f"-DoutputDirectory={jars}")
        (jar,) = jars.glob("cpython-*.jar")
        with zipfile.ZipFile(jar) as archive:
            archive.extractall(MADE / "unpacked")
        (MADE / "unpacked/org/bytedeco/cpython/windows-x86_64").rename(folder)
    return folder


def compile_core(gcc, python):
    """Compile the extension module into the site-packages of this Python, beside the package."""
    headers, library = python / "include", python / "libs/python311.lib"
    (MADE / "native.c").write_text('#include "native.h"\n', encoding="utf-8")
    run(gcc, *WARNINGS, FOR_64_BITS, "-fsyntax-only", "-I", CORE, "-isystem", headers, MADE / "native.c")
    run(sys.executable, "-P", "-m", "cython", CORE / "_core.pyx", "-o", MADE / "_core.c")
    site = python / "lib/site-packages"
    for package, source in (("hwheel_core", CORE), ("hwheel", ROOT / "src/hwheel")):
        shutil.rmtree(site / package, ignore_errors=True)
        shutil.copytree(source, site / package, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    described = Path(str(distribution("hwheel").locate_file(f"hwheel-{distribution('hwheel').version}.dist-info")))
    shutil.copytree(described, site / described.name, dirs_exist_ok=True)
    module = site / "hwheel_core/_core.cp311-win_amd64.pyd"
    options = ["-O2", "-Wall", FOR_64_BITS, "-shared", "-static-libgcc", "-I", CORE, "-I", headers]
    run(gcc, *options, MADE / "_core.c", library, "-o", module)


def tests_to_run():
    """Yield the test files that do not import Arrow, which does not load under Wine."""
    for path in TESTS:
        files = sorted((ROOT / path).glob("test_*.py")) if (ROOT / path).is_dir() else [ROOT / path]
        for file in files:
            if "import pyarrow" not in file.read_text(encoding="utf-8"):
                yield str(file.relative_to(ROOT))


def install_packages(python):
    wheels = ["--platform", "win_amd64", "--python-version", "3.11", "--implementation", "cp", "--only-binary=:all:"]
    if not (python / "lib/site-packages/pytest").exists():
        target = python / "lib/site-packages"
        run(sys.executable, "-m", "pip", "install", "-q", "--target", target, *wheels, *PACKAGES)


def main():
    gcc = shutil.which("x86_64-w64-mingw32-gcc")
    if gcc is None:
        print("no x86_64-w64-mingw32-gcc here (Debian package: gcc-mingw-w64-x86-64): nothing was checked")
        return
    MADE.mkdir(parents=True, exist_ok=True)
    has_wine = WINE is not None
    program = MADE / "platform_test.exe"
    run(gcc, *WARNINGS, "-I", CORE, HERE / "platform_test.c", "-o", program)
    if has_wine:
        wine(program)
    python = windows_python()
    if python is None:
        print("no mvn here to download a CPython for Windows: the rest of the core was not compiled")
        return
    compile_core(gcc, python)
    if has_wine:
        install_packages(python)
        wine(python / "python.exe", "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests_to_run())
    else:
        print("no wine here (Debian package: wine64): compiled, but not run")


if __name__ == "__main__":
    main()
