"""The installed distribution: its files, its metadata, and the effects of importing it."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, metadata, requires
from pathlib import Path

import pytest

import hwheel
import hwheel_core
from programs import output_of
from systems import FREE_THREADED

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [found[1] for one in PROJECT["classifiers"] if (found := re.fullmatch(r".* :: (3\.\d+)", one))]
REPOSITORY = PROJECT["urls"]["Repository"]


def installed_files():
    return {str(file) for file in distribution("hwheel").files if "__pycache__" not in str(file)}


def text(name):
    return (ROOT / name).read_text()


# --- files ------------------------------------------------------------------------------------------------------------


def test_the_suite_runs_on_the_installed_package():
    for package in (hwheel, hwheel_core):
        assert (ROOT / "src") not in Path(package.__file__).parents
        assert (ROOT / "hwheel_core") not in Path(package.__file__).parents


def test_every_python_file_is_installed_and_no_source_of_the_core():
    installed = installed_files()
    assert {str(file.relative_to(ROOT / "src")) for file in (ROOT / "src").rglob("*.py")} <= installed
    assert {"hwheel/py.typed", "hwheel_core/py.typed", "hwheel_core/_core.pyi"} <= installed
    sources = {file for file in installed if file.endswith((".pyx", ".pxi", ".pxd", ".c", ".h"))}
    assert sources == {"hwheel/c_api.pxd", "hwheel_core/c_api/hwheel.h"}


# --- imports ----------------------------------------------------------------------------------------------------------


def test_an_import_loads_no_other_package():
    script = (
        "import sys, site; before = set(sys.modules); import hwheel; "
        "paths = [getattr(sys.modules[m], '__file__', None) or '' for m in set(sys.modules) - before]; "
        "print([p for p in paths if 'site-packages' in p and '/hwheel' not in p])"
    )
    assert output_of("-P", "-c", script) == "[]\n"


def test_an_import_of_the_uncompiled_core_says_so():
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import hwheel_core"
    done = subprocess.run([sys.executable, "-P", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is not compiled" in done.stderr


@pytest.mark.skipif(not FREE_THREADED, reason="this Python has a GIL")
def test_an_import_does_not_enable_the_gil():
    names = ("asyncio", "c_api", "containers", "live", "metrics", "purgatory", "recorder", "sched", "threading")
    use = "timer = hwheel.SystemTimer(); hwheel.TimerTask(0); timer.call_later(0, int); timer.close()"
    code = f"import sys, hwheel, {', '.join(f'hwheel.{name}' for name in names)}; {use}; print(sys._is_gil_enabled())"
    # CPython warns when a module enables the GIL. An empty PYTHON_GIL sets nothing.
    assert output_of("-W", "error", "-c", code, env={"PYTHON_GIL": ""}) == "False\n"


# --- metadata ---------------------------------------------------------------------------------------------------------


def test_the_package_has_no_dependencies():
    assert [need for need in requires("hwheel") if "extra ==" not in need] == []


def test_the_metadata_matches_the_project():
    installed = metadata("hwheel")
    assert installed["Version"] == hwheel.__version__ == PROJECT["version"]
    assert (installed["License-Expression"], installed.get_all("License-File")) == (PROJECT["license"], ["LICENSE"])
    assert dict(url.split(", ") for url in installed.get_all("Project-URL")) == PROJECT["urls"]
    assert installed.get_all("Classifier") == PROJECT["classifiers"]


def test_links_of_the_readme_lead_to_the_pages_of_this_version():
    readme = metadata("hwheel").get_payload() or metadata("hwheel")["Description"]
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert len(links) == text("README.md").count("](") > 5
    for link in links:
        assert link.startswith("https://"), link
        if page := re.fullmatch(rf"{re.escape(REPOSITORY)}/(?:blob|raw)/v{re.escape(PROJECT['version'])}/(.*)", link):
            assert (ROOT / page[1]).exists(), link
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", readme):
        assert "/raw/" in picture, "a page of GitHub is not a picture"


# --- files of the project ---------------------------------------------------------------------------------------------


def test_the_version_is_in_pyproject_and_in_the_changelog_only():
    assert f"\n## {PROJECT['version']} (" in text("CHANGELOG.md")
    for name in ("CITATION.cff", "SECURITY.md", "setup.py", "README.md", "docs/versions.md", "Makefile"):
        assert PROJECT["version"] not in text(name), name


def test_the_citation_agrees_with_the_project():
    citation = text("CITATION.cff")
    assert f"license: {PROJECT['license']}\n" in citation
    assert f"repository-code: {REPOSITORY}\n" in citation
    keywords = re.search(r"^keywords:\n((?:  - .*\n)+)", citation, re.MULTILINE)[1]
    assert re.findall("  - (.*)\n", keywords) == PROJECT["keywords"]
    assert all(f"- name: {author['name']}\n" in citation for author in PROJECT["authors"])


def test_every_url_of_the_project_is_its_site_or_in_its_repository():
    owner, name = REPOSITORY.removeprefix("https://github.com/").split("/")
    site = f"https://{owner}.github.io/{name}/"
    assert PROJECT["urls"]["Documentation"] == site and f'html_baseurl = "{site}stable/"' in text("docs/conf.py")
    tree = re.compile(rf"{re.escape(REPOSITORY)}/(?:blob|tree)/main/(.*)")
    for url in PROJECT["urls"].values():
        assert url == site or f"{url}/".startswith(f"{REPOSITORY}/"), url
        if page := tree.fullmatch(url):
            assert (ROOT / page[1]).exists(), url


def test_the_oldest_and_the_newest_python_are_the_same_everywhere():
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert f"Python {PYTHONS[0]} or later" in text("Makefile")
    assert f"{PYTHONS[0]} to {PYTHONS[-1]}" in text("docs/versions.md")
