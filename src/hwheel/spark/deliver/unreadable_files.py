"""Input files that cannot be read: truncated, or of other types. They are left out, and the job goes on.

A file is read wholly or not at all, because a batch that is run again must have the same messages. So when one cannot
be read, the batch fails, the file is written down here, in the checkpoint, and the batch is run again without it, now
and after any crash. The dead letters have its name, and why.
"""

import hashlib
import json
import re
from dataclasses import dataclass, field

from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.trial_reading import as_in_logs
from hwheel_core import HwheelError

LIST = "unreadable-files.json"


class ListDamagedError(HwheelError, ValueError):
    """The list in the checkpoint is not as it was written."""


@dataclass
class UnreadableFiles:
    """Those of a checkpoint, with the reasons, by their URLs as they are in the log.

    Raises:
        ListDamagedError: the list in the checkpoint is not as it was written.
    """

    checkpoint: Directory
    reasons: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.checkpoint.exists(LIST):
            found = reasons_of(self.checkpoint.read(LIST), f"{self.checkpoint.path.rstrip('/')}/{LIST}")
            self.reasons = {as_in_logs(file): reason for file, reason in found.items()}

    def add(self, file: str, reason: str) -> None:
        """Writes it down."""
        self.reasons[file] = reason
        self.checkpoint.make()
        self.checkpoint.write(LIST, json.dumps(self.reasons, indent=1))

    def names(self) -> list[str]:
        """As `_metadata.file_path` has them, which has one slash where the log has three."""
        return sorted({name for file in self.reasons for name in (file, re.sub("^file:/+", "file:/", file))})


def reasons_of(text: str, file: str) -> dict[str, str]:
    """What was written down. Raises ListDamagedError: a job without it would take these files for read."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(reason, str) for reason in found.values()):
        raise ListDamagedError(
            f"{file} is damaged: it has the input files that could not be read, and why\n"
            "put it back from a copy; where there is none, move the files that the dead letters name out of the input, "
            "and delete it"
        )
    return found


def letter_name(file: str) -> str:
    """What the dead letter of a file is called, the same each time."""
    return f"file-{hashlib.sha256(file.encode()).hexdigest()[:16]}"
