"""`make dist`: the sdist and the wheels in dist/, tried as users get them. See tools/release/README.md."""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from glob import glob
from pathlib import Path

from artefacts import build_sdist, build_wheel
from contents import check_sdist, check_wheel
from fresh import try_wheel
from sources import ROOT, git

DIST = ROOT / "dist"
TELL = (
    "import sys, sysconfig, os.path as p; print(sys.implementation.name, sys.version_info >= ({}, {}), "
    "p.exists(p.join(sysconfig.get_path('include'), 'Python.h')), "
    "'cp%d%d' % sys.version_info[:2] + ('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pythons", default="", help="by spaces (default: whatever is found)")
    parser.add_argument("--tests", choices=["part", "all", "none"], default="part")
    options = parser.parse_args()
    pythons = found_pythons(options.pythons.split())
    say(f"for {', '.join(f'{tag} ({python})' for tag, python in pythons.items())}")
    if changed := git("status", "--porcelain", "--untracked-files=no"):
        say(f"mind that these differ from the newest commit, whose time is used:\n{changed.rstrip()}")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory(prefix="hwheel-dist-") as temporary:
        sdist, wheels = build_all(pythons, Path(temporary))
        subprocess.run([sys.executable, "-P", "-m", "twine", "check", "--strict", sdist, *wheels.values()], check=True)
        check_again(pythons, Path(temporary), sdist, wheels)
        for tag, wheel in wheels.items():
            if options.tests != "none":
                say(f"{tag}: in a fresh environment, without a compiler")
                work = Path(temporary) / f"fresh-{tag}"
                work.mkdir()
                try_wheel(wheel, pythons[tag], work, options.tests == "all")
    for file in [sdist, *wheels.values()]:
        print(f"{digest(file)}  {file.stat().st_size:>9,}  {file.relative_to(ROOT)}")


def found_pythons(given: list[str]) -> dict[str, str]:
    """{tag: command} of each CPython that the project supports and that has its headers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"])
    assert oldest
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    names = [f"python3.{minor}{kind}" for minor in range(int(oldest[2]), 30) for kind in ("", "t")]
    candidates = given or [*names, *sorted(glob(f"{pyenv}/versions/*/bin/python3"))]
    found: dict[str, str] = {}
    for candidate in candidates:
        if python := shutil.which(candidate):
            told = subprocess.run([python, "-c", TELL.format(*oldest.groups())], capture_output=True, text=True)
            match told.stdout.split():
                case ["cpython", "True", "True", tag]:
                    found.setdefault(tag, python)
                    continue
        if given:
            sys.exit(f"{candidate}: no CPython from {oldest[0][2:]} on with its headers")
    return found or sys.exit("no CPython was found: PYTHONS=... names some")


def build_all(pythons: dict[str, str], work: Path) -> tuple[Path, dict[str, Path]]:
    say("the sdist")
    sdist = kept(build_sdist(fresh(work / "one")))
    check_sdist(sdist)
    wheels = {}
    for tag, python in pythons.items():
        say(f"{tag}: a wheel from the sdist")
        wheels[tag] = kept(build_wheel(sdist, python, fresh(work / f"one-{tag}")))
        check_wheel(wheels[tag], tag)
    return sdist, wheels


def check_again(pythons: dict[str, str], work: Path, sdist: Path, wheels: dict[str, Path]) -> None:
    """Builds the sdist and a wheel a second time, elsewhere, later, as another would: the bytes must be the same."""
    tag = next(iter(wheels))
    say(f"{tag}: built again, in another place, for the same bytes")
    time.sleep(2)  # zip files count time in steps of two seconds
    usual = os.umask(0o077)
    os.environ.update(TZ="Asia/Kathmandu", PYTHONHASHSEED="7", LC_ALL="C")
    try:
        again = build_sdist(fresh(work / "another place"))
        wheel = build_wheel(again, pythons[tag], fresh(work / "another place for a wheel"))
    finally:
        os.umask(usual)
    for first, second in ((sdist, again), (wheels[tag], wheel)):
        if (first.name, digest(first)) != (second.name, digest(second)):
            shutil.copy(second, DIST.parent / "build")
            sys.exit(f"{first.name} comes out otherwise the second time: compare it with build/{second.name}")


def kept(file: Path) -> Path:
    return Path(shutil.copy(file, DIST))


def fresh(place: Path) -> Path:
    place.mkdir()
    return place


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def say(what: str) -> None:
    print(f"make dist: {what}", flush=True)


if __name__ == "__main__":
    main()
