"""Input files that Java does not see: on a local disk it passes over names that are no text in its encoding, and says
nothing. Python sees them."""

import os
import time
from dataclasses import dataclass

from hwheel.spark.deliver.files import Directory

NOT_READ = "{name} is not read: its name is no text in the encoding of this system, and Java does not see it\nrename it"


@dataclass
class UnseenNames:
    """`look()` is called again and again, and looks from time to time."""

    source: Directory
    every_s: float
    look_at: float = 0.0

    def look(self) -> list[str]:
        """What the user has to know of the names that are there, if it is time to look."""
        if self.source.local_path is None or time.monotonic() < self.look_at:
            return []
        self.look_at = time.monotonic() + self.every_s
        try:
            names = sorted(os.listdir(self.source.local_path))
        except OSError:  # it is Spark's to say that
            return []
        return [NOT_READ.format(name=shown(name)) for name in names if not is_text(name) and name[0] not in "._"]


def is_text(name: str) -> bool:
    """Whether Python had no need to escape any byte of it."""
    return not any("\udc80" <= character <= "\udcff" for character in name)


def shown(name: str) -> str:
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")
