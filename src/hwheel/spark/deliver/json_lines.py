"""A strict reader of messages as JSON lines. Runs inside `mapInArrow`.

A line is one JSON object and nothing else. Its fields have the types that docs/spark.md names, and no field occurs
twice. (`NaN` counts as a number, because Python writes it.) Any other line is malformed as a whole. A reader that
accepted parts of a line would deliver messages that no producer sent: a cancel whose flag is the string "true" would
become a message.

Spark's own JSON reader accepts repeated fields and text after the object, keeps the readable part of a malformed line,
and does not return the line for the dead letters. So this module reads the lines itself. Arrow's reader parses
thousands of lines at a time, and rejects all of them if one is unusual. This module then divides the lines, and parses
a small part with an unusual line one by one, which finds the reason. Both ways together cost no more than Spark's
reader.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from hwheel.spark.arrow import codes, one_batch
from hwheel.spark.message import LAST_DUE_MS
from hwheel.spark.worker import begin_task
from hwheel_core import HwheelError

MESSAGE = pa.schema(
    [
        ("id", pa.string()),
        ("key", pa.string()),
        ("due", pa.int64()),
        ("cancel", pa.bool_()),
        ("payload", pa.string()),
    ]
)
READ = "id string, key string, due bigint, cancel boolean, payload string, unreadable string, line string"
REPLACE = pa.field("replace", pa.bool_())  # with by_id
READ_BY_ID = READ.replace("unreadable", "replace boolean, unreadable")
TARGET = pa.field("target", pa.string())  # the field `topic` of a message; PLACE_IN_TOPIC has another `topic`
TOPIC = pa.field("topic", pa.string())
BLANK_LINE = "blank"  # a column that marks blank lines: they are counted and left out
NUMBER = "number"  # of a line, from 1, in its part of a file
FEW_LINES = 64  # are parsed one by one if Arrow's reader rejects them
PARTS = 8  # into which more lines are divided if Arrow's reader rejects them
MAX_PLAIN_BYTES = 2**30  # that Arrow's reader gets at a time
NO_SUCH_TOPIC = "topic is none of --to-topics: {}"
MAX_SHOWN = 60  # characters of a value in a reason
# Arrow's reader has no limit, and Python's limit depends on the stack. Without this limit, the other lines of a batch
# would decide whether a line is malformed.
DEEPEST = 500

space = re.compile(r"[ \t\r\n]*").match
bracket_or_string = re.compile(r'[\[\]{}"]').search


class UnreadableError(HwheelError, ValueError):
    """A line is malformed. The message is the reason."""


class Number(str):
    """A number in the notation of the line."""

    __slots__ = ()


class Whole(Number):
    """A number without a fraction or an exponent."""

    __slots__ = ()


scan_value = json.JSONDecoder(parse_int=Whole, parse_float=Number, parse_constant=Number).scan_once  # type: ignore[attr-defined]


@dataclass(frozen=True)
class JsonLines:
    """Parse batches whose first column is the line, in binary.

    Yields the columns of READ (with by_id, READ_BY_ID), then TARGET if topics are given, then the other columns of the
    batch. `line` is the line of a malformed row, and null for the others. If the batch has a column BLANK_LINE, NUMBER
    replaces it, and blank lines are left out.

    Args:
        unit_ms: The unit of due times.
        topics: The topics that a message may name in its field `topic`. None: the field is ignored.
        by_id: A message may have the field `replace`, and a cancel may lack `due`.
    """

    unit_ms: int
    topics: tuple[str, ...] | None = None
    by_id: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        fields = MESSAGE.append(REPLACE) if self.by_id else MESSAGE
        if self.topics is not None:
            fields = fields.append(TOPIC)
        for batch in numbered(batches):
            lines = batch.column(0)
            for part in read_lines(lines, fields):
                target = None
                if self.topics is not None:
                    part, target = with_known_topic(part, self.topics)
                found = part.append_column("line", shown_lines(part, lines, self.unit_ms))
                lines = lines.slice(part.num_rows)
                if target is not None:
                    found = found.append_column(TARGET, target)
                rows = batch.slice(batch.num_rows - len(lines) - part.num_rows, part.num_rows)
                for name in batch.schema.names[1:]:
                    found = found.append_column(name, rows.column(name))
                yield found


def numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Number the lines in each part of a file, and remove blank lines, if the batch has a column BLANK_LINE.

    The rows of a part follow each other. The columns `file` and `block`, the first byte of the part, identify it.
    """
    last_part, last_number = None, 0
    for batch in batches:
        if BLANK_LINE not in batch.schema.names or not batch.num_rows:
            yield batch
            continue
        file, block = codes(batch.column("file")).to_numpy(), batch.column("block").to_numpy()
        starts = np.flatnonzero(np.append(True, (file[1:] != file[:-1]) | (block[1:] != block[:-1])))
        sizes = np.diff(np.append(starts, len(file)))
        numbers = np.arange(1, len(file) + 1) - np.repeat(starts, sizes)
        first, last = ((batch.column("file")[at].as_py(), block[at]) for at in (0, -1))
        if first == last_part:
            numbers[: sizes[0]] += last_number
        last_part, last_number = last, int(numbers[-1])
        is_line = pc.invert(batch.column(BLANK_LINE))
        yield batch.set_column(batch.schema.get_field_index(BLANK_LINE), NUMBER, pa.array(numbers)).filter(is_line)


def with_known_topic(rows: pa.RecordBatch, topics: tuple[str, ...]) -> tuple[pa.RecordBatch, pa.Array]:
    """Separate the topics from the rows. A row with an unknown topic becomes unreadable.

    The reason: a producer that sends to a missing topic waits, and blocks all other messages.
    """
    number = rows.schema.get_field_index("topic")
    target, rows = rows.column(number), rows.remove_column(number)
    bad = pc.and_not(pc.is_valid(target), pc.is_in(target, pa.array(topics, pa.string())))
    if not pc.any(bad).as_py():
        return rows, target
    reasons = [NO_SUCH_TOPIC.format(excerpt(json.dumps(topic))) for topic in target.to_pylist()]
    columns = [pc.if_else(bad, pa.scalar(None, column.type), column) for column in rows.columns[:-1]]
    columns.append(pc.if_else(bad, pa.array(reasons, pa.string()), rows.columns[-1]))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema), pc.if_else(bad, None, target)


def read_lines(lines: pa.Array, fields: pa.Schema = MESSAGE) -> Iterator[pa.RecordBatch]:
    """Yield the lines in parts: the fields, and the column `unreadable`, which is the reason or null."""
    if (found := read_plain(lines, fields)) is not None:
        yield found
    elif len(lines) <= FEW_LINES:
        yield read_one_by_one(lines, fields)
    else:
        size = max(FEW_LINES, -(-len(lines) // PARTS))
        for start in range(0, len(lines), size):
            yield from read_lines(lines.slice(start, size), fields)


def read_plain(lines: pa.Array, fields: pa.Schema = MESSAGE) -> pa.RecordBatch | None:
    """Parse lines with Arrow's reader. Return None if a line is unusual.

    Each line starts and ends with a brace. No object spans two lines: after the brace that ends the first line, a comma
    or a bracket would have to follow, but the second line starts with a brace. So if there are as many objects as
    lines, each line is one object.
    """
    if lines.null_count or not 0 < lines.nbytes < MAX_PLAIN_BYTES:
        return None
    try:
        texts = lines.cast(pa.string())  # checks UTF-8
        if not pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py():
            return None
        whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
        joined = pc.binary_join(whole, "\n")[0].as_buffer().to_pybytes()
        if b"NaN" in joined or b"Inf" in joined:  # Arrow accepts more spellings than Python
            return None
        if any_too_deep(joined, texts):
            return None
        options = pj.ReadOptions(use_threads=False, block_size=len(joined) + 1)
        table = pj.read_json(pa.BufferReader(joined), read_options=options, parse_options=parse_options(fields))
    except pa.ArrowException:
        return None
    if table.num_rows != len(lines):
        return None
    batch: pa.RecordBatch = one_batch(table)
    return batch.append_column("unreadable", pa.nulls(len(lines), pa.string()))


def parse_options(fields: pa.Schema) -> pj.ParseOptions:
    """Return options to read these fields only."""
    return pj.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore", newlines_in_values=False)


def any_too_deep(joined: bytes, texts: pa.Array) -> bool:
    """Return True if a line is nested too deeply. Check only lines with enough brackets."""
    if joined.count(b"{") + joined.count(b"[") - len(texts) < DEEPEST:
        return False
    brackets = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
    return any(map(too_deep, texts.filter(pc.greater(brackets, DEEPEST)).to_pylist()))


def too_deep(text: str) -> bool:
    """Return True if JSON is nested too deeply."""
    if text.count("{") + text.count("[") <= DEEPEST:
        return False
    depth = at = 0
    while (found := bracket_or_string(text, at)) is not None:
        at = found.end()
        if found[0] == '"':
            try:
                at = scanstring(text, at, False)[1]
            except json.JSONDecodeError:
                return False  # not JSON
        else:
            depth += 1 if found[0] in "{[" else -1
            if depth > DEEPEST:
                return True
    return False


def read_one_by_one(lines: pa.Array, fields: pa.Schema = MESSAGE) -> pa.RecordBatch:
    """Parse lines one by one. The fields of an unreadable line are null."""
    rows: list[dict[str, Any]] = []
    for line in lines.to_pylist():
        try:
            rows.append({} if line is None else read_line(line, fields.names))
        except UnreadableError as error:
            rows.append({"unreadable": str(error)})
    return pa.RecordBatch.from_pylist(rows, schema=fields.append(pa.field("unreadable", pa.string())))


def read_line(line: bytes, names: Collection[str] = tuple(MESSAGE.names)) -> dict[str, Any]:
    """Return the fields that a line has. Raise UnreadableError if the line is malformed."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8: byte {error.object[error.start]:#04x} at {error.start}") from None
    if too_deep(text):
        raise UnreadableError("nested too deeply")
    try:
        fields, end = read_object(text, space(text).end(), names)  # type: ignore[union-attr]
    except (StopIteration, IndexError, json.JSONDecodeError):
        raise UnreadableError("not a JSON object") from None
    if end != len(text):
        raise UnreadableError(f"more behind the message: {excerpt(text[end:])}")
    return {name: of_type(name, *fields[name]) for name in fields}


def read_object(text: str, at: int, names: Collection[str]) -> tuple[dict[str, tuple[Any, str]], int]:
    """Return the named fields of an object, each with its text, and the position after the object."""

    def end_of_space(at: int) -> int:
        return space(text, at).end()  # type: ignore[union-attr]

    def expect(wanted: str, at: int) -> int:
        if text[at] != wanted:
            raise StopIteration(at)
        return end_of_space(at + 1)

    fields: dict[str, tuple[Any, str]] = {}
    at = expect("{", at)
    more = text[at] != "}"
    while more:
        if text[at] != '"':
            raise StopIteration(at)
        name, at = scanstring(text, at + 1, True)
        at = begin = expect(":", end_of_space(at))
        value, at = scan_value(text, at)
        if name in names:
            if name in fields:
                raise UnreadableError(f"{name} is there twice")
            fields[name] = value, text[begin:at]
        at = end_of_space(at)
        more = text[at] == ","
        if more:
            at = end_of_space(at + 1)
    return fields, expect("}", at)


def of_type(name: str, value: Any, text: str) -> Any:
    """Return the value of a field. Raise UnreadableError if it has the wrong type."""
    if value is None:
        return None
    if name in ("cancel", "replace"):
        if not isinstance(value, bool):
            raise UnreadableError(f"{name} is neither true nor false: {excerpt(text)}")
        return value
    if name == "due":
        if not isinstance(value, Whole) or not -(2**63) <= (number := whole(value)) < 2**63:
            raise UnreadableError(f"due is no whole number of 64 bits: {excerpt(text)}")
        return number
    if isinstance(value, str) and not isinstance(value, Number):
        text = value
    elif name == "topic":
        raise UnreadableError(f"topic is no string: {excerpt(text)}")
    elif name != "payload" and not isinstance(value, Number):
        raise UnreadableError(f"{name} is neither a string nor a number: {excerpt(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnreadableError(f"{name} has half of a surrogate pair") from None
    return text


def whole(digits: str) -> int:
    """Return an integer. For very long digits, which Python refuses to convert, return a value above 64 bits."""
    return int(digits) if len(digits) < 30 else 2**64


def excerpt(text: str) -> str:
    """Return the beginning of a text for a reason, without lone surrogates."""
    shown = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
    return shown.encode(errors="backslashreplace").decode()


def shown_lines(rows: pa.RecordBatch, lines: pa.Array, unit_ms: int) -> pa.Array:
    """Return the lines of malformed rows as text, and null for the others."""
    id, due = rows.column("id"), rows.column("due")
    in_range = pc.fill_null(pc.and_(pc.greater_equal(due, 0), pc.less_equal(due, LAST_DUE_MS // unit_ms)), False)
    if REPLACE.name in rows.schema.names:
        cancel, replace = (pc.fill_null(rows.column(name), False) for name in ("cancel", REPLACE.name))
        in_range = pc.and_(pc.or_(in_range, pc.and_(cancel, pc.is_null(due))), pc.invert(pc.and_(cancel, replace)))
    good = pc.and_(pc.greater(pc.fill_null(pc.binary_length(id), 0), 0), in_range)
    if pc.all(good).as_py():
        return pa.nulls(len(rows), pa.string())
    malformed = pc.invert(good).to_pylist()
    return pa.array(
        [
            lines[i].as_py().decode(errors="replace") if bad and lines[i].is_valid else None
            for i, bad in enumerate(malformed)
        ],
        pa.string(),
    )
