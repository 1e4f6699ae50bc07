"""The settings of a delivery, and those that its checkpoint stores for life."""

import json
from array import array
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from typing import Any

from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.topic import KafkaOptions
from hwheel.spark.durations import duration_ms
from hwheel.spark.hold import MAX_SHARDS
from hwheel_core import HwheelError, place

OPTIONS_FILE = "hwheel.json"
MOVED = "hwheel-moved"  # a file in a checkpoint whose messages were moved to another job
VERSION = 2  # of OPTIONS_FILE
DURATIONS = ("tick", "dedup")
LONGEST_MS = 10**15
LARGEST_MESSAGE = 1_000_000  # with its key and headers, a record of this size fits the default limits of Kafka
SOURCE_KINDS = ("files", "a topic with JSON", "a topic with headers")
UNITS_MS = {"ms": 1, "s": 1000}  # of due times
BEGUN = "messages/offsets"  # exists once the query has begun, so that its state depends on the options


class CheckpointOptionsError(HwheelError, ValueError):
    """The checkpoint was created with other options, or its options cannot be read. The message says which."""


@dataclass(frozen=True)
class WheelOptions:
    """The options that must not change during the life of a checkpoint.

    Args:
        tick, dedup: Timedeltas or strings such as "1 second" and "1000ms".
        source: The kind of source, one of SOURCE_KINDS.
        due_unit: The unit of due times in the input: "ms" or "s".

    Raises:
        TypeError, ValueError: An option is invalid. The message names the option.
    """

    tick: str | timedelta
    wheel_size: int
    shards: int
    partitions: int
    dedup: str | timedelta
    source: str = "files"
    due_unit: str = "ms"
    by_id: bool = False

    def __post_init__(self) -> None:
        for name in DURATIONS:
            length_ms = duration_ms(getattr(self, name), name)
            if length_ms > LONGEST_MS:
                raise ValueError(f"{name} must be at most a million days, not {getattr(self, name)!r}")
            object.__setattr__(self, name, timedelta(milliseconds=length_ms))
        for name in ("wheel_size", "shards", "partitions"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int):
                raise TypeError(f"{name} must be a whole number, not {number!r}")
            if name != "wheel_size" and not 1 <= number <= MAX_SHARDS:
                raise ValueError(f"{name} must be from 1 to {MAX_SHARDS}, not {number}")
        if not isinstance(self.by_id, bool):
            raise TypeError(f"by_id must be true or false, not {self.by_id!r}")
        for name, known in {"source": SOURCE_KINDS, "due_unit": tuple(UNITS_MS)}.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        place(array("q"), 0, duration_ms(self.tick, "tick"), self.wheel_size)  # checks both

    def to_json(self) -> str:
        durations = {f"{name}_ms": duration_ms(getattr(self, name), name) for name in DURATIONS}
        others = {name: value for name, value in asdict(self).items() if name not in DURATIONS}
        return json.dumps({"version": VERSION, **durations, **others})

    @classmethod
    def from_json(cls, text: str) -> "WheelOptions":
        """Read what ``to_json()`` wrote.

        Raises:
            ValueError: The text is invalid. The message completes "FILE is ...".
        """
        try:
            stored = json.loads(text)
        except ValueError as error:
            raise ValueError(f"not JSON ({error})") from None
        if not isinstance(stored, dict):
            raise ValueError("not a JSON object")
        version = stored.pop("version", None)
        if version != VERSION:
            raise ValueError(f"of version {version!r}, but this hwheel reads version {VERSION}")
        for name in DURATIONS:
            number = stored.pop(f"{name}_ms", None)
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise ValueError(f"without a whole number for {name}_ms")
            stored[name] = timedelta(milliseconds=number)
        names = {field.name for field in fields(cls)}
        if {*stored} != names:
            raise ValueError(f"with other fields than it should have: {', '.join(sorted({*stored} ^ names))}")
        try:
            return cls(**stored)
        except (TypeError, OverflowError) as error:
            raise ValueError(str(error)) from None


@dataclass(frozen=True)
class Places:
    """The directories of a delivery, or its topics as kafka://BROKERS/TOPIC.

    Args:
        source: Input.
        to: Output of due messages.
        dead_letters: Output of malformed rows and unreadable files.
        checkpoint: A directory.
        archive: The directory for input files that were read.
    """

    source: str
    to: str
    dead_letters: str
    checkpoint: str
    archive: str | None = None


@dataclass(frozen=True)
class DeliverySettings:
    """The settings of one run of a delivery.

    Args:
        format: The format of all files: "json" or "parquet".
        trigger: The interval between batches of messages.
        dead_letters_every: The interval between batches of dead letters. Each batch reads all rows since the last one.
        files_a_batch: The maximum number of new files in a batch.
        clean_source: What to do with input files that both queries have read: "archive", "delete", or None.
        largest_message: The maximum size of a message in bytes.
        max_lateness: How late a message may be at the start of the batch that delivers it. Default: without limit.
        too_late: What to do with later messages: "dead-letters", or "mark" to deliver them with a mark.
        rate: The maximum number of messages a second, over a batch.
        forget_files: How much older than the newest file an input file may be. Spark ignores older files, and forgets
            their names. Default: 100,000 years, because Spark's own default of a week would ignore old files.
        index: Whether to keep a lookup index beside the state. None: as before.
    """

    places: Places
    wheel: WheelOptions
    kafka: KafkaOptions = KafkaOptions()
    format: str = "json"
    trigger: str = "1 second"
    dead_letters_every: str = "5 seconds"
    files_a_batch: int | None = None
    clean_source: str | None = None
    forget_files: str | None = None
    largest_message: int = LARGEST_MESSAGE
    max_lateness: str | None = None
    too_late: str = "dead-letters"
    rate: int | None = None
    index: bool | None = None

    @property
    def file_format(self) -> str:
        """The name of Spark's reader of the input files."""
        return "text" if self.format == "json" else self.format


def check_not_moved(checkpoint: Directory) -> None:
    """Raise CheckpointOptionsError if the messages of a checkpoint were moved to another job."""
    if checkpoint.exists(MOVED):
        raise CheckpointOptionsError(
            f"the messages of this checkpoint were moved to {checkpoint.read(MOVED)}\n"
            "start a job on the files there, with a new checkpoint and output"
        )


def kept_options(checkpoint: Directory, given: dict[str, Any], defaults: WheelOptions) -> WheelOptions:
    """Return the options of a checkpoint. A new checkpoint stores the given options.

    Args:
        given: Options by name. None means that the user did not give the option.

    Raises:
        TypeError, ValueError: A given option is invalid. Nothing was written.
        CheckpointOptionsError: A given option differs from the stored one, or the stored ones cannot be read.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    new = {"shards": wanted["partitions"], **wanted} if "partitions" in wanted else wanted
    options = replace(defaults, **new)
    if checkpoint.exists(OPTIONS_FILE):
        try:
            stored = WheelOptions.from_json(checkpoint.read(OPTIONS_FILE))
        except ValueError as error:
            if checkpoint.exists(BEGUN):
                raise unreadable_options(checkpoint, error, options) from None
        else:
            for name in wanted:
                check_same(name, getattr(stored, name), getattr(options, name))
            return stored
        checkpoint.delete(OPTIONS_FILE)  # no state depends on the unreadable options yet
    elif checkpoint.exists(BEGUN):
        raise unreadable_options(checkpoint, ValueError("missing"), options)
    checkpoint.make()
    checkpoint.write(OPTIONS_FILE, options.to_json())
    return options


def check_same(name: str, stored: Any, wanted: Any) -> None:
    """Raise CheckpointOptionsError if a given option differs from the stored one."""
    if stored == wanted:
        return
    if name == "source":
        raise CheckpointOptionsError(f"--from: the checkpoint was created for {stored}, not for {wanted}")
    option = f"--{name.replace('_', '-')}"
    if isinstance(stored, bool):
        difference = f"{'with' if stored else 'without'} {option}"
    else:
        difference = f"with {option} {option_text(stored)}, not {option_text(wanted)}"
    raise CheckpointOptionsError(
        f"the checkpoint was created {difference}: this must not change during the life of a checkpoint"
    )


def option_text(value: Any) -> str:
    """Return the value of an option in the notation of the command line."""
    return f"{duration_ms(value, '')}ms" if isinstance(value, timedelta) else str(value)


def unreadable_options(checkpoint: Directory, error: ValueError, options: WheelOptions) -> CheckpointOptionsError:
    """Return the error for a checkpoint with messages whose options are unknown."""
    file = f"{checkpoint.path.rstrip('/')}/{OPTIONS_FILE}"
    return CheckpointOptionsError(
        f"{file} is {error}, so the options of the checkpoint are unknown\n"
        f"restore the file with the options of the first start; it has this form: {options.to_json()}"
    )
