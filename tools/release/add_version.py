"""Add a built site to the published ones: add_version.py BUILT SITES VERSION

Each release has a folder named after its version. The newest release is also in `stable`. The branch main is in `dev`.
`index.html` leads to `stable`, and `versions.html` lists all versions.
"""

import re
import shutil
import sys
from pathlib import Path

PAGE = '<!doctype html>\n<meta charset="utf-8">\n<title>hwheel</title>\n{}\n'
REDIRECT = '<meta http-equiv="refresh" content="0; url={}/">'
LINK = '<li><a href="{0}/">{0}</a></li>'


def release(name: str) -> tuple[int, ...]:
    """Return the numbers of a release, and an empty tuple for any other folder."""
    return tuple(map(int, name.split("."))) if re.fullmatch(r"\d+(\.\d+)*", name) else ()


def put(built: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(built, folder)


def add_version(built: Path, sites: Path, version: str) -> None:
    """Put the site in ``built`` into ``sites`` and update its entry pages."""
    if not (release(version) or version == "dev"):
        raise ValueError(f"the version must be 'dev' or numbers with dots, got {version!r}")
    put(built, sites / version)
    releases = sorted(filter(None, (release(folder.name) for folder in sites.iterdir())), reverse=True)
    if releases and release(version) == releases[0]:
        put(built, sites / "stable")
    (sites / ".nojekyll").touch()  # GitHub Pages leaves out folders such as _static otherwise
    (sites / "index.html").write_text(PAGE.format(REDIRECT.format("stable" if releases else "dev")))
    names = [".".join(map(str, numbers)) for numbers in releases] + ["dev"] * (sites / "dev").exists()
    (sites / "versions.html").write_text(PAGE.format("\n".join(map(LINK.format, names))))


if __name__ == "__main__":
    add_version(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
