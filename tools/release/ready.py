"""ready.py TAG ADDRESS: whether the tree is that of this release, and in the repository that its metadata names."""

import sys
import tomllib

from sources import ROOT


def main(tag: str, address: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    faults = {
        f"the tag is {tag}, the version {project['version']}": tag != f"v{project['version']}",
        f"this is {address}, the metadata says {project['urls']['Repository']}": address
        != project["urls"]["Repository"],
        f"CHANGELOG.md has no {project['version']}": f"\n## {project['version']} ("
        not in (ROOT / "CHANGELOG.md").read_text(),
    }
    if any(faults.values()):
        sys.exit("\n".join(fault for fault, is_so in faults.items() if is_so))


if __name__ == "__main__":
    main(*sys.argv[1:])
