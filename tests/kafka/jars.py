"""The jars of Kafka, of Spark's Kafka connector, and of Delta. Maven fetches them once into build/kafka."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
KEPT = Path(os.environ.get("HWHEEL_KAFKA_JARS", HERE.parents[1] / "build" / "kafka"))
PATIENCE_S = 600


class MissingJarsError(Exception):
    """The jars are not there and cannot be fetched."""


def jars(name):
    """Return the directory with the jars that a pom in this folder names. Raises MissingJarsError."""
    pom = HERE / f"{name}.xml"
    directory = KEPT / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if directory.exists():
        return directory
    if shutil.which("mvn") is None:
        raise MissingJarsError(f"no mvn found, which fetches the jars of tests/kafka/{pom.name}")
    making = directory.with_suffix(f".{os.getpid()}")
    try:
        command = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime"]
        command.append(f"-DoutputDirectory={making}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if done.returncode:
            raise MissingJarsError(
                f"Maven cannot fetch the jars of tests/kafka/{pom.name}: {done.stdout.strip()[:600]}"
            )
        making.rename(directory)
    except subprocess.TimeoutExpired:
        raise MissingJarsError(f"Maven did not fetch the jars of tests/kafka/{pom.name} in {PATIENCE_S} s") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return directory
