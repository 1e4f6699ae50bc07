"""A wheel in an environment that has nothing else: what it pulls in, what it does, and whether the tests pass there.

The tests run from a copy of the tree, away from the checkout. No compiler is on the PATH, so nothing can be compiled in
passing; and neither src/ nor hwheel_core/ is in the copy, unless the whole suite is to run, whose tests read them.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from sources import ROOT, copy_to

PART = ["tests/unit", "tests/packaging/test_missing_extras.py", "tests/packaging/test_metadata.py"]
COMPILERS = re.compile(
    r"(.*-)?(cc|gcc|g\+\+|c\+\+|clang|clang\+\+|cpp|c[89]9|tcc|ld|ld\.\w+|as|cl|cython\w*)(-[\d.]+)?(\.exe)?"
)
PATIENCE_S = 3600


def try_wheel(wheel: Path, python: str, work: Path, whole_suite: bool) -> None:
    environment = Environment(python, work)
    environment.pip("install", "--no-index", wheel)
    installed = {one["name"] for one in json.loads(environment.pip("list", "--format=json"))}
    if installed - {"pip", "setuptools"} != {"hwheel"}:
        raise SystemExit(f"{wheel.name} pulls in {sorted(installed - {'pip', 'setuptools', 'hwheel'})}")
    environment.expect(0, r"hwheel [\d.]+\ncore: release build.*", "-m", "hwheel", "--version")
    environment.expect(0, r"\{.*\}\n", "-m", "hwheel", "trace", "--json")
    environment.expect(2, r"hwheel demo needs rich, .*: pip install 'hwheel\[cli\]'\n", "-m", "hwheel", "demo")
    environment.pip("install", "--group", f"{ROOT}/pyproject.toml:{'test' if whole_suite else 'test-core'}")
    tree = copy_to(work / "copy")
    if not whole_suite:
        shutil.rmtree(tree / "src")
        shutil.rmtree(tree / "hwheel_core")
    tests = ["tests"] if whole_suite else PART
    environment.run("-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, cwd=tree, shown=True)


class Environment:
    """A virtual environment, with a PATH that has every command of this machine's but compilers."""

    def __init__(self, python: str, work: Path) -> None:
        self.work = work
        subprocess.run([python, "-m", "venv", work / "environment"], check=True)
        self.commands = work / "environment" / ("Scripts" if os.name == "nt" else "bin")
        shadow = work / "commands"
        shadow.mkdir()
        for directory in os.environ["PATH"].split(os.pathsep):
            for command in Path(directory).iterdir() if Path(directory).is_dir() else ():
                if not COMPILERS.fullmatch(command.name) and not (shadow / command.name).is_symlink():
                    (shadow / command.name).symlink_to(command.resolve())
        path = os.pathsep.join(map(str, (self.commands, shadow)))
        for compiler in ("cc", "gcc", "clang", "g++"):
            if there := shutil.which(compiler, path=path):
                raise SystemExit(f"a compiler is still to be found: {there}")
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV", "HWHEEL_"))
        }
        self.variables = {**kept, "PATH": path, "CC": "no-compiler-here"}
        self.pip("install", "--upgrade", "pip>=25.1")

    def pip(self, *arguments: str | Path) -> str:
        return self.run("-m", "pip", "--disable-pip-version-check", *arguments)

    def run(self, *arguments: str | Path, cwd: Path | None = None, shown: bool = False) -> str:
        done = self.ended(*arguments, cwd=cwd, shown=shown)
        if done.returncode:
            raise SystemExit(f"python {' '.join(map(str, arguments))}: {done.stderr or done.stdout or 'see above'}")
        return done.stdout or ""

    def expect(self, status: int, pattern: str, *arguments: str) -> None:
        """The end of a command and what it says, on standard output if it is well."""
        done = self.ended(*arguments)
        said, other = (done.stdout, done.stderr) if status == 0 else (done.stderr, done.stdout)
        if done.returncode != status or other or not re.fullmatch(pattern, said, re.DOTALL):
            raise SystemExit(f"python {' '.join(arguments)}: status {done.returncode}, {said!r}, {other!r}")

    def ended(
        self, *arguments: str | Path, cwd: Path | None = None, shown: bool = False
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.commands / "python", *arguments],
            cwd=cwd or self.work,
            env=self.variables,
            text=True,
            stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )
