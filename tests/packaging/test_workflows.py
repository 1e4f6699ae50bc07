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
    used = re.findall(r"uses: (.*)", workflow)
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


def test_an_action_has_the_same_version_everywhere():
    used = {pin for file in WORKFLOWS for pin in re.findall(r"uses: (\S+)", file.read_text())}
    assert len(used) == len({pin.split("@")[0] for pin in used}) > 5


def test_every_command_of_a_workflow_exists(workflow):
    targets = {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}
    sessions = {*re.findall(r"^@nox\.session\ndef (\w+)", (ROOT / "noxfile.py").read_text(), re.MULTILINE)}
    for command in re.findall(r"run: make (.*)", workflow):
        assert {word for word in command.split() if "=" not in word} <= targets
    assert {*re.findall(r"nox -s (\w+)", workflow)} <= sessions


def test_every_job_states_its_permissions(workflow):
    if "jobs:" in workflow:
        assert "\npermissions: {}\n" in workflow
        assert len(re.findall(r"^    permissions:", workflow, re.MULTILINE)) == workflow.count("runs-on:")
        assert re.findall(r"(\w[\w-]+): write", workflow) in ([], ["id-token", "attestations"])


def test_every_supported_python_is_tested_and_has_wheels():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pythons = re.findall(r":: (3\.\d+)", "\n".join(project["project"]["classifiers"]))
    tested = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/ci.yml").read_text())[1]
    assert re.findall(r"[\d.]+", tested) == pythons
    wheels = project["tool"]["cibuildwheel"]["build"]
    tags = [f"cp{python.replace('.', '')}" for python in pythons]
    assert [tag for tag in wheels if not tag.endswith("t-*")] == [f"{tag}-*" for tag in tags]
    assert [tag for tag in wheels if tag.endswith("t-*")] == [f"{tag}t-*" for tag in tags if tag >= "cp314"]


def test_the_gate_waits_for_every_job_except_systems():
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    jobs = re.findall(r"^  ([\w-]+):$", text.split("\njobs:")[1], re.MULTILINE)
    needed = re.search(r"needs: \[(.*)\]", text)[1].split(", ")
    assert {*jobs} - {*needed} == {"gate", "systems"}
