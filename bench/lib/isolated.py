"""Runs a function of these benchmarks in an interpreter of its own, where nothing has used memory or left garbage."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parents[1]


def isolated(module: str, function: str, *arguments: Any) -> Any:
    """function(*arguments), which take the way through JSON, and so does what it returns.

    Raises:
        RuntimeError: it failed; with what it printed.
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
