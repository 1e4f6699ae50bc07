"""The options of a delivery that stay as they are for the life of its checkpoint, and are kept in it."""

import json
from array import array
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from typing import Any

from hwheel.spark.deliver.directory import Directory
from hwheel.spark.durations import duration_ms
from hwheel.spark.hold import SHARDS_MOST
from hwheel_core import HwheelError, place

UNITS_MS = {"ms": 1, "s": 1000}  # of a due
OPTIONS_FILE = "hwheel.json"
VERSION = 2  # of what is kept. 1, which it did not say, had tick and dedup as they were written
TIMES = ("tick", "dedup")
LONGEST_MS = 10**15
KINDS = ("files", "a topic with JSON", "a topic with headers")
BEGUN = "messages/offsets"  # is there once the query has begun, and there is something that hangs on the options


class CheckpointOptionsError(HwheelError, ValueError):
    """The checkpoint was made with other options, or what it keeps of them cannot be read; the message says which."""


@dataclass(frozen=True)
class WheelOptions:
    """What stays as it is for the life of a checkpoint. tick and dedup may be given as users write them, "1 second" or
    "1000ms", which is the same.

    Raises:
        ValueError, TypeError: an option is none; the message names it.
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
        for name in TIMES:
            length_ms = duration_ms(getattr(self, name), name)
            if length_ms > LONGEST_MS:
                raise ValueError(f"{name} must be shorter than some million days, not {getattr(self, name)!r}")
            object.__setattr__(self, name, timedelta(milliseconds=length_ms))
        for name in ("wheel_size", "shards", "partitions"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int):
                raise TypeError(f"{name} must be a whole number, not {number!r}")
            if name != "wheel_size" and not 1 <= number <= SHARDS_MOST:
                raise ValueError(f"{name} must be from 1 to {SHARDS_MOST}, not {number}")
        if not isinstance(self.by_id, bool):
            raise TypeError(f"by_id must be true or false, not {self.by_id!r}")
        for name, known in {"source": KINDS, "due_unit": tuple(UNITS_MS)}.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        place(array("q"), 0, duration_ms(self.tick, "tick"), self.wheel_size)  # checks both

    def to_json(self) -> str:
        times = {f"{name}_ms": duration_ms(getattr(self, name), name) for name in TIMES}
        others = {name: value for name, value in asdict(self).items() if name not in TIMES}
        return json.dumps({"version": VERSION, **times, **others})

    @classmethod
    def from_json(cls, text: str) -> "WheelOptions":
        """What to_json wrote, now or in an older version. Raises ValueError."""
        try:
            kept = json.loads(text)
        except ValueError as error:
            raise ValueError(f"no JSON ({error})") from None
        if not isinstance(kept, dict):
            raise ValueError("no JSON object")
        version = kept.pop("version", 1)
        if isinstance(version, int) and version > VERSION:
            raise ValueError(f"of version {version}, and this hwheel knows {VERSION}: it is of a later one")
        if version == VERSION:
            for name in TIMES:
                number = kept.pop(f"{name}_ms", None)
                if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                    raise ValueError(f"without a whole number of {name}_ms")
                kept[name] = timedelta(milliseconds=number)
        elif version != 1:
            raise ValueError(f"of an unknown version, {version!r}")
        names = {field.name for field in fields(cls)}
        if unknown := sorted({*kept} - names):
            raise ValueError(f"with a field that this hwheel does not know, {unknown[0]!r}")
        if missing := sorted(names - {*kept} - {"source", "due_unit", "by_id"}):  # which came later
            raise ValueError(f"without {missing[0]!r}")
        try:
            return cls(**kept)
        except (TypeError, OverflowError) as error:
            raise ValueError(str(error)) from None


def kept_options(checkpoint: Directory, given: dict[str, Any], defaults: WheelOptions) -> WheelOptions:
    """The options of the checkpoint, written down when it is new.

    Raises:
        ValueError, TypeError: an option is none. Then nothing was written.
        CheckpointOptionsError: another one than the checkpoint's was given, or its own cannot be read.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    new = {"shards": wanted["partitions"], **wanted} if "partitions" in wanted else wanted
    options = replace(defaults, **new)
    if checkpoint.exists(OPTIONS_FILE):
        try:
            kept = WheelOptions.from_json(checkpoint.read(OPTIONS_FILE))
        except ValueError as error:
            if checkpoint.exists(BEGUN):
                raise unreadable(checkpoint, error, options) from None
        else:
            for name in wanted:
                check_same(name, getattr(kept, name), getattr(options, name))
            return kept
        checkpoint.delete(OPTIONS_FILE)  # nothing hangs on it yet
    elif checkpoint.exists(BEGUN):
        raise unreadable(checkpoint, ValueError("not there"), options)
    checkpoint.make()
    checkpoint.write(OPTIONS_FILE, options.to_json())
    return options


def check_same(name: str, kept: Any, wanted: Any) -> None:
    """Raises CheckpointOptionsError if they are not."""
    if kept == wanted:
        return
    if name == "source":
        raise CheckpointOptionsError(f"the checkpoint was made for {kept}, not for {wanted}, as --from")
    if isinstance(kept, bool):
        with_or_without = "with" if kept else "without"
        raise CheckpointOptionsError(
            f"the checkpoint was made {with_or_without} --{name.replace('_', '-')}: "
            "this stays as it is for the life of a checkpoint"
        )
    raise CheckpointOptionsError(
        f"the checkpoint was made with --{name.replace('_', '-')} {shown(kept)}, not {shown(wanted)}: "
        "this stays as it is for the life of a checkpoint"
    )


def shown(value: Any) -> str:
    """An option as it may be given."""
    return f"{duration_ms(value, '')}ms" if isinstance(value, timedelta) else str(value)


def unreadable(checkpoint: Directory, error: ValueError, options: WheelOptions) -> CheckpointOptionsError:
    """Of a checkpoint that has messages, of which nobody can know by what options they are placed."""
    file = f"{checkpoint.path.rstrip('/')}/{OPTIONS_FILE}"
    return CheckpointOptionsError(
        f"{file} is {error}: the options that the checkpoint was made with are not known\n"
        f"put the file back as it was, with the first start's options; it looks like this: {options.to_json()}"
    )
