"""Java, which Spark runs on: is it there, and is it recent enough."""

import os
import re
import shutil
import subprocess

from hwheel_core import HwheelError

JAVA_LEAST = 17
HOW_TO_INSTALL = (
    f"Spark needs Java {JAVA_LEAST} or later: install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; Fedora: "
    "dnf install java-21-openjdk-headless; macOS: brew install openjdk@17), or let JAVA_HOME name one that is there"
)


class JavaNotUsableError(HwheelError, RuntimeError):
    """There is no Java that Spark could run on; the message says what to install."""


def check_java() -> str:
    """The java command that Spark will use. Raises JavaNotUsableError."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        where = f"in JAVA_HOME, {home}" if home else "on the PATH"
        raise JavaNotUsableError(f"no Java found {where}. {HOW_TO_INSTALL}")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaNotUsableError(f"{java} does not run ({error}). {HOW_TO_INSTALL}") from None
    version = major_version(told)
    if version is None or version < JAVA_LEAST:
        raise JavaNotUsableError(f"{java} is Java {version or 'of an unknown version'}. {HOW_TO_INSTALL}")
    return java


def major_version(told: str) -> int | None:
    """What `java -version` tells: 17 of "17.0.15", 8 of "1.8.0_402".

    >>> major_version('openjdk version "17.0.15" 2025-04-15'), major_version('java version "1.8.0_402"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None
