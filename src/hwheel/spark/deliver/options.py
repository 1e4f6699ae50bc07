"""The options of a delivery that stay as they are for the life of its checkpoint, and are kept in it."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from hwheel.spark.deliver.files import Directory
from hwheel_core import HwheelError

OPTIONS_FILE = "hwheel.json"


class CheckpointOptionsError(HwheelError, ValueError):
    """The checkpoint was made with other options; the message says which."""


@dataclass(frozen=True)
class WheelOptions:
    """What stays as it is for the life of a checkpoint."""

    tick: str
    wheel_size: int
    shards: int
    partitions: int
    dedup: str
    source: str = "files"


def kept_options(checkpoint: Directory, given: dict[str, str | int | None], defaults: WheelOptions) -> WheelOptions:
    """The options of the checkpoint, written down when it is new. Raises CheckpointOptionsError for another one
    given."""
    wanted: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if checkpoint.exists(OPTIONS_FILE):
        kept = json.loads(checkpoint.read(OPTIONS_FILE))
        for name, value in wanted.items():
            if kept[name] != value and name == "source":
                raise CheckpointOptionsError(f"the checkpoint was made for {kept[name]}, not for {value}, as --from")
            if kept[name] != value:
                raise CheckpointOptionsError(
                    f"the checkpoint was made with --{name.replace('_', '-')} {kept[name]}, not {value}: "
                    "this stays as it is for the life of a checkpoint"
                )
        return WheelOptions(**kept)
    if "partitions" in wanted and "shards" not in wanted:
        wanted["shards"] = wanted["partitions"]
    options = WheelOptions(**{**asdict(defaults), **wanted})
    checkpoint.make()
    checkpoint.write(OPTIONS_FILE, json.dumps(asdict(options)))
    return options
