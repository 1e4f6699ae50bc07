"""Whether Spark can be started here."""

import os
import shutil
import subprocess


def java_is_missing():
    """What is wrong with Java here, or None."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.path.exists(java):
        return "no Java found: Spark needs Java 17 or later (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{java} -version fails: {done.stderr}"
