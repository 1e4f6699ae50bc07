"""Runs a function of the benchmarks in a new interpreter, with unused memory and no garbage."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parents[1]


def isolated(module: str, function: str, *arguments: Any) -> Any:
    """Return function(*arguments). Arguments and result must fit into JSON.

    Raises:
        RuntimeError: The call failed. The message is its output.
    """
    script = (
        f"import json, sys; sys.path.insert(0, {str(BENCH)!r}); from {module} import {function} as work; "
        "print(json.dumps(work(*json.loads(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, json.dumps(arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{module}.{function}{arguments} failed:\n{done.stderr}")
    return json.loads(done.stdout)
