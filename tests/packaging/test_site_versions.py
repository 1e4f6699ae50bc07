"""tools/release/add_version.py arranges the published versions of the site."""

import importlib.util
import re
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "tools/release/add_version.py"
spec = importlib.util.spec_from_file_location("add_version", FILE)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)


@pytest.fixture
def publish(tmp_path):
    """publish(version): add a site whose page has the version as its text, and return the folder of all sites."""
    (tmp_path / "sites").mkdir()

    def add(version):
        built = tmp_path / f"built-{version}"
        built.mkdir(exist_ok=True)
        (built / "index.html").write_text(version)
        module.add_version(built, tmp_path / "sites", version)
        return tmp_path / "sites"

    return add


def listed(sites):
    return re.findall(r'href="(.*?)/"', (sites / "versions.html").read_text())


def test_before_the_first_release_the_entry_page_leads_to_dev(publish):
    sites = publish("dev")
    assert "url=dev/" in (sites / "index.html").read_text()
    assert listed(sites) == ["dev"] and not (sites / "stable").exists()


def test_stable_is_the_newest_release(publish):
    for version in ("dev", "0.9.0", "0.10.0", "0.9.1"):
        sites = publish(version)
    assert listed(sites) == ["0.10.0", "0.9.1", "0.9.0", "dev"]
    assert (sites / "stable/index.html").read_text() == "0.10.0"
    assert (sites / "0.9.1/index.html").read_text() == "0.9.1"
    assert "url=stable/" in (sites / "index.html").read_text() and (sites / ".nojekyll").exists()


def test_a_version_is_replaced(publish):
    (publish("dev") / "dev/old.html").touch()
    assert [file.name for file in (publish("dev") / "dev").iterdir()] == ["index.html"]


def test_other_names_are_refused():
    with pytest.raises(ValueError, match=r"got '\.\./x'"):
        module.add_version(Path(), Path(), "../x")
