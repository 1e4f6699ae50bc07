"""The workflows agree with the rest of the project. `nox -s workflows` checks their security."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github").rglob("*.yml"))

if not WORKFLOWS:
    pytest.skip("an sdist has no workflows", allow_module_level=True)


@pytest.fixture(params=WORKFLOWS, ids=lambda file: file.name)
def workflow(request):
    return request.param.read_text()


def test_every_action_is_pinned_by_commit_with_its_version(workflow):
    used = [one for one in re.findall(r"uses: (.*)", workflow) if not one.startswith("$/")]
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


def test_an_action_has_the_same_version_everywhere():
    used = {pin for file in WORKFLOWS for pin in re.findall(r"uses: ([^$\s]\S+)", file.read_text())}
    assert len(used) == len({pin.split("@")[0] for pin in used}) > 5


def test_every_command_of_a_workflow_exists(workflow):
    targets = {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}
    sessions = {*re.findall(r"^@nox\.session\ndef (\w+)", (ROOT / "noxfile.py").read_text(), re.MULTILINE)}
    for command in re.findall(r"run: make (.*)", workflow):
        assert {word for word in command.split() if "=" not in word and not re.fullmatch(r"-j\d+", word)} <= targets
    assert {*re.findall(r"nox -s (\w+)", workflow)} <= sessions


def test_a_workflow_calls_only_workflows_that_exist():
    called = [name for file in WORKFLOWS for name in re.findall(r"uses: \$/(\S+)", file.read_text())]
    assert called == [".github/workflows/ci.yml", ".github/workflows/pages.yml"]
    assert all("  workflow_call:\n" in (ROOT / name).read_text() for name in called)


def test_every_job_states_its_permissions():
    writing = {}
    for file in WORKFLOWS:
        workflow = file.read_text()
        if "jobs:" in workflow:
            assert "\npermissions: {}\n" in workflow
            jobs = re.findall(r"^    (?:runs-on|uses):", workflow, re.MULTILINE)
            assert len(re.findall(r"^    permissions:", workflow, re.MULTILINE)) == len(jobs)
            writing[file.name] = re.findall(r"(\w[\w-]+): write", workflow)
    assert writing == {"ci.yml": [], "pages.yml": ["contents"], "release.yml": ["id-token", "attestations", "contents"]}


def test_every_supported_python_is_tested_and_has_wheels():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pythons = re.findall(r":: (3\.\d+)", "\n".join(project["project"]["classifiers"]))
    tested = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/ci.yml").read_text())[1]
    assert re.findall(r"[\d.]+", tested) == pythons
    wheels = project["tool"]["cibuildwheel"]["build"]
    tags = [f"cp{python.replace('.', '')}" for python in pythons]
    assert [tag for tag in wheels if not tag.endswith("t-*")] == [f"{tag}-*" for tag in tags]
    assert [tag for tag in wheels if tag.endswith("t-*")] == [f"{tag}t-*" for tag in tags if tag >= "cp314"]


def test_the_gate_waits_for_every_job():
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    jobs = re.findall(r"^  ([\w-]+):$", text.split("\njobs:")[1], re.MULTILINE)
    needed = re.search(r"needs: \[(.*)\]", text)[1].split(", ")
    assert {*jobs} - {*needed} == {"gate"}


def test_a_release_waits_for_the_whole_ci():
    text = (ROOT / ".github/workflows/release.yml").read_text()
    publish = text.split("\n  publish:\n")[1].split("\n  site:\n")[0]
    assert re.search(r"needs: \[(.*)\]", publish)[1].split(", ") == ["ci", "sdist", "wheels", "inspect"]
