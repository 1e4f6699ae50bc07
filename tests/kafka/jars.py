"""The jars of Kafka's broker and of Spark's Kafka connector: brought by Maven once, and kept in build/kafka."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
KEPT = Path(os.environ.get("HWHEEL_KAFKA_JARS", HERE.parents[1] / "build" / "kafka"))
PATIENCE_S = 600


class NoKafka(Exception):
    """What the tests need cannot be had; the message says what is missing."""


def jars(name):
    """The directory with the jars that a pom beside this file names. NoKafka: it is not there and cannot be made."""
    pom = HERE / f"{name}.xml"
    directory = KEPT / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if directory.exists():
        return directory
    if shutil.which("mvn") is None:
        raise NoKafka(f"no mvn found, which would bring the jars of tests/kafka/{pom.name}")
    making = directory.with_suffix(f".{os.getpid()}")
    try:
        done = subprocess.run(
            [
                "mvn",
                "-q",
                "-B",
                "-f",
                pom,
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                f"-DoutputDirectory={making}",
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode:
            raise NoKafka(f"Maven cannot bring the jars of tests/kafka/{pom.name}: {done.stdout.strip()[:600]}")
        making.rename(directory)
    except subprocess.TimeoutExpired:
        raise NoKafka(f"Maven did not bring the jars of tests/kafka/{pom.name} in {PATIENCE_S} s") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return directory
