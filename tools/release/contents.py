"""What lies in an sdist and in a wheel: all that belongs there, byte for byte, and nothing else."""

import base64
import csv
import hashlib
import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path

from sources import ROOT, released_files

# What setuptools adds to an sdist, and what a wheel has beside the packages.
ADDED = r"PKG-INFO|setup\.cfg|(src/)?hwheel\.egg-info/[\w.-]+"
DIST_INFO = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}


def check_sdist(sdist: Path) -> None:
    """It is what git tracks."""
    with tarfile.open(sdist) as archive:
        found = {
            name.split("/", 1)[1]: content.read()
            for name in archive.getnames()
            if (content := archive.extractfile(name))
        }
    added = {name for name in found if re.fullmatch(ADDED, name)}
    expect(f"{sdist.name}: its files", found.keys() - added, released_files())
    changed = {name for name in found.keys() - added if found[name] != (ROOT / name).read_bytes()}
    expect(f"{sdist.name}: files that are not as in git", changed, set())


def wanted_in_wheel() -> set[str]:
    """The Python files, the types, the page of the live look, what extensions in C compile with, and no source of the
    core."""
    kinds = (".py", ".pyi", "/py.typed", "/live/page.html", "/c_api.pxd", "/c_api/hwheel.h")
    files = {name.removeprefix("src/") for name in released_files() if name.endswith(kinds)}
    return {name for name in files if name.startswith(("hwheel/", "hwheel_core/"))}


def check_wheel(wheel: Path, tag: str) -> None:
    """It is the packages, one compiled module for the interpreter of this tag (cp313), and what describes them."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info/"
    described = {name.removeprefix(info) for name in found if name.startswith(info)}
    compiled = {name for name in found if name.endswith((".so", ".pyd", ".dylib"))}
    expect(f"{wheel.name}: what describes it", described, DIST_INFO)
    expect(f"{wheel.name}: its files", {n for n in found if not n.startswith(info)} - compiled, wanted_in_wheel())
    if len(compiled) != 1 or not re.match(rf"hwheel_core/_core\.(cpython-{tag[2:]}-|{tag}-)", min(compiled)):
        raise SystemExit(f"{wheel.name}: one compiled module for {tag} is wanted, not {sorted(compiled)}")
    for name in compiled:
        if places := sorted({*re.findall(rb"/(?:home|root|tmp|work|Users|build)/[\w./-]+", found[name])}):
            raise SystemExit(f"{wheel.name}: {name} names places of the machine that built it: {places[:3]}")
        if b".debug_info" in found[name]:
            raise SystemExit(f"{wheel.name}: {name} has debug information")
    check_record(wheel, found, info)


def check_record(wheel: Path, found: dict[str, bytes], info: str) -> None:
    """RECORD has each file, with its hash and size."""
    rows = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(found[f"{info}RECORD"].decode()))}
    true = {f"{info}RECORD": ("", "")}
    for name in found.keys() - true.keys():
        digest = base64.urlsafe_b64encode(hashlib.sha256(found[name]).digest()).rstrip(b"=").decode()
        true[name] = (f"sha256={digest}", str(len(found[name])))
    expect(f"{wheel.name}: RECORD", {*rows.items()}, {*true.items()})


def expect(what: str, found: set, wanted: set) -> None:
    if found != wanted:
        raise SystemExit(f"{what}: too many {sorted(found - wanted)[:9]}, missing {sorted(wanted - found)[:9]}")


def main(files: list[str]) -> None:
    """contents.py FILE...: checks sdists and wheels that were built elsewhere."""
    for file in map(Path, files):
        check_wheel(file, file.name.split("-")[3]) if file.suffix == ".whl" else check_sdist(file)
        print(f"{file.name}: as it should be")


if __name__ == "__main__":
    main(sys.argv[1:])
