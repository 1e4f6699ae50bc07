"""The pages are read on GitHub, too, so they point at files of the tree, `../examples/watchdogs.py`. On the site these
lead to the repository, at the tag of this version, and bench/README.md is a page."""

import re
from os.path import relpath
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).parents[2]
PAGES = {"bench/README.md": "benchmarks.md", "README.md": "index.md"}
BENCHMARKS = (ROOT / "bench" / "README.md").read_text
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")


def turned(words: str, lies_in: Path, read_in: Path, files: str) -> str:
    """A text that lies in one folder and is read in another, with its links turned to where they lead from there.

    Raises:
        FileNotFoundError: a link leads to no file.
    """

    def to(link: re.Match[str]) -> str:
        file = (lies_in / link[1]).resolve()
        if not file.exists():
            raise FileNotFoundError(link[0])
        path = file.relative_to(ROOT).as_posix()
        if path in PAGES:
            file = ROOT / "docs" / PAGES[path]
        elif not path.startswith("docs/"):
            return f"{files}/{path}{link[2] or ''}"
        return relpath(file, read_in) + (link[2] or "")

    return LINK.sub(to, words)


def source_read(app: Sphinx, page: str, source: list[str]) -> None:
    """Sphinx asks this of each page."""
    files = f"{app.config.html_theme_options['source_repository']}blob/v{app.config.release}"
    folder = Path(app.srcdir, page).parent
    try:
        source[0] = turned(source[0], folder, folder, files)
        if page == "benchmarks":
            told = re.sub(r"^#", "##", BENCHMARKS().partition("\n")[2], flags=re.MULTILINE)
            source[0] += "\n" + turned(_without_comments_as_titles(told), ROOT / "bench", folder, files)
    except FileNotFoundError as nowhere:
        logging.getLogger(__name__).warning("a link leads nowhere: %s", nowhere, location=page)


def _without_comments_as_titles(words: str) -> str:
    """In a block of shell a line that begins with # is no title: it has one # too many now."""
    return re.sub(r"```(?s:.*?)```", lambda block: re.sub(r"^##", "#", block[0], flags=re.MULTILINE), words)


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("source-read", source_read)
    return {"parallel_read_safe": True}
