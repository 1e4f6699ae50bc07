"""What the project says of itself stands in one place, and where it stands in a second, the two agree."""

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import hwheel

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
PYTHONS = [found[1] for one in PROJECT["classifiers"] if (found := re.fullmatch(r".* :: (3\.\d+)", one))]


def text(name):
    return (ROOT / name).read_text()


def test_what_is_installed_says_what_the_project_says():
    told = metadata("hwheel")
    assert told["Version"] == hwheel.__version__ == PROJECT["version"]
    assert (told["License-Expression"], told.get_all("License-File")) == (PROJECT["license"], ["LICENSE"])
    assert dict(url.split(", ") for url in told.get_all("Project-URL")) == PROJECT["urls"]
    assert told.get_all("Classifier") == PROJECT["classifiers"]
    assert not [one for one in PROJECT["classifiers"] if one.startswith("License ::")]  # the expression says it


def test_the_readme_leads_to_the_pages_of_this_version():
    links = re.findall(r"\]\(([^)]+)\)", metadata("hwheel").get_payload() or metadata("hwheel")["Description"])
    pages = f"{PROJECT['urls']['Repository']}/blob/v{PROJECT['version']}/"
    assert len(links) == text("README.md").count("](") > 5
    assert {link for link in links if not link.startswith("https://")} == set()
    assert {
        link for link in links if link.startswith(pages) and not (ROOT / link.removeprefix(pages)).exists()
    } == set()


def test_the_version_stands_nowhere_else():
    for name in ("CITATION.cff", "SECURITY.md", "setup.py", "README.md", "docs/versions.md", "Makefile"):
        assert PROJECT["version"] not in text(name), name


def test_the_citation_agrees():
    citation = text("CITATION.cff")
    assert f"license: {PROJECT['license']}\n" in citation
    assert f"repository-code: {PROJECT['urls']['Repository']}\n" in citation
    keywords = re.search(r"^keywords:\n((?:  - .*\n)+)", citation, re.MULTILINE)[1]
    assert re.findall("  - (.*)\n", keywords) == PROJECT["keywords"]
    assert [f"- name: {author['name']}\n" in citation for author in PROJECT["authors"]] == [True]


def test_every_address_of_the_project_is_in_its_repository():
    repository = PROJECT["urls"]["Repository"]
    assert {url for url in PROJECT["urls"].values() if not f"{url}/".startswith(f"{repository}/")} == set()
    tree = re.compile(rf"{re.escape(repository)}/(?:blob|tree)/main/(.*)")
    for page in filter(None, map(tree.fullmatch, PROJECT["urls"].values())):
        assert (ROOT / page[1]).exists(), page[0]


def test_the_oldest_python_is_the_same_everywhere():
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert f"Python {PYTHONS[0]} or later" in text("Makefile")
    assert f"{PYTHONS[0]} to {PYTHONS[-1]}" in text("docs/versions.md")


def test_the_changelog_has_an_entry_for_this_version():
    assert f"\n## {PROJECT['version']} (" in text("CHANGELOG.md")
