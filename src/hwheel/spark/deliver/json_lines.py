"""Lines of JSON to the columns of messages, strictly. Runs inside `mapInArrow`.

A message is one JSON object a line, and nothing behind it; its fields have the types that docs/spark.md names, and none
of them is there twice. (`NaN` counts as a number: Python writes it.) Whatever is not so is malformed as a whole,
because who reads half of a message delivers something that nobody sent: a cancel whose `true` is a string would go out
as a message.

Spark's own reader of JSON keeps the last of repeated fields, does not look behind the object, and keeps what it could
read of a line that it could not; and it does not give the line itself for the dead letters. So lines come here as they
are. Arrow's reader takes them by the thousand, and refuses all of them where one is not plain; then they are divided,
and what stays refused is looked at one by one, which tells why. Both ways, it costs no more than Spark's reader does.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from hwheel.spark.arrow import one_batch
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
REPLACE = pa.field("replace", pa.bool_())  # is read where messages can be replaced
READ_BY_ID = READ.replace("unreadable", "replace boolean, unreadable")
TARGET = pa.field("target", pa.string())  # what of a message is its `topic`; PLACE_IN_TOPIC has another
TOPIC = pa.field("topic", pa.string())
LINES_AT_ONCE = 64  # as many are looked at one by one
PARTS = 8
BYTES_AT_ONCE = 2**30
NO_SUCH_TOPIC = "topic is none of --to-topics: {}"
SHOWN = 60  # so much of a value stands in a reason
# Arrow's reader goes to any depth, and Python's as deep as its stack allows, which hangs on who calls; a line must be a
# message or none whatever stands beside it.
DEEPEST = 500

space = re.compile(r"[ \t\r\n]*").match
bracket_or_string = re.compile(r'[\[\]{}"]').search


class UnreadableError(HwheelError, ValueError):
    """Why a line is no message."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()


class Whole(Number):
    """One without a fraction or an exponent."""

    __slots__ = ()


scan_value = json.JSONDecoder(parse_int=Whole, parse_float=Number, parse_constant=Number).scan_once  # type: ignore[attr-defined]


@dataclass(frozen=True)
class JsonLines:
    """Takes batches whose first column is the line, binary; gives the columns of READ, and the others of the batch.

    `line` is there where a row is malformed, whole, with whatever fields it has. `unit_ms`: that of due. `topics`:
    those that a message may name as its `topic`, which is a column `target` then, behind those of READ; None: that
    field is not looked at. `by_id`: whether a message may have `replace`, which is a column behind the payload then,
    and a cancel no due.
    """

    unit_ms: int
    topics: tuple[str, ...] | None = None
    by_id: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        fields = MESSAGE.append(REPLACE) if self.by_id else MESSAGE
        if self.topics is not None:
            fields = fields.append(TOPIC)
        for batch in batches:
            lines = batch.column(0)
            for part in read_lines(lines, fields):
                target = None
                if self.topics is not None:
                    part, target = with_known_topic(part, self.topics)
                found = part.append_column("line", shown_lines(part, lines, self.unit_ms))
                lines = lines.slice(part.num_rows)
                if target is not None:
                    found = found.append_column(TARGET, target)
                rest = batch.slice(batch.num_rows - len(lines) - part.num_rows, part.num_rows)
                for name in batch.schema.names[1:]:
                    found = found.append_column(name, rest.column(name))
                yield found


def with_known_topic(rows: pa.RecordBatch, topics: tuple[str, ...]) -> tuple[pa.RecordBatch, pa.Array]:
    """The rows without their topic, and the topics. A row with another one than these is unreadable: its producer would
    wait for a topic that is not there, and all others with it.
    """
    number = rows.schema.get_field_index("topic")
    target, rows = rows.column(number), rows.remove_column(number)
    bad = pc.and_not(pc.is_valid(target), pc.is_in(target, pa.array(topics, pa.string())))
    if not pc.any(bad).as_py():
        return rows, target
    reasons = [NO_SUCH_TOPIC.format(cut(json.dumps(topic))) for topic in target.to_pylist()]
    columns = [pc.if_else(bad, pa.scalar(None, column.type), column) for column in rows.columns[:-1]]
    columns.append(pc.if_else(bad, pa.array(reasons, pa.string()), rows.columns[-1]))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema), pc.if_else(bad, None, target)


def read_lines(lines: pa.Array, fields: pa.Schema = MESSAGE) -> Iterator[pa.RecordBatch]:
    """The fields of each line, and why it is unreadable."""
    if (found := read_plain(lines, fields)) is not None:
        yield found
    elif len(lines) <= LINES_AT_ONCE:
        yield read_one_by_one(lines, fields)
    else:
        size = max(LINES_AT_ONCE, -(-len(lines) // PARTS))
        for start in range(0, len(lines), size):
            yield from read_lines(lines.slice(start, size), fields)


def read_plain(lines: pa.Array, fields: pa.Schema = MESSAGE) -> pa.RecordBatch | None:
    """The fields of lines that all are messages of the plainest kind; None: one is not.

    Each line begins and ends with a brace. So no object ends in another line than it begins: behind the brace that
    ends a line within an object there would have to be a comma or another end, and the next line begins with a brace.
    So there are as many objects as lines only if each line has one.
    """
    if lines.null_count or not 0 < lines.nbytes < BYTES_AT_ONCE:
        return None
    try:
        texts = lines.cast(pa.string())  # checks that it is UTF-8
        if not pc.all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))).as_py():
            return None
        whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
        joined = pc.binary_join(whole, "\n")[0].as_buffer().to_pybytes()
        if b"NaN" in joined or b"Inf" in joined:  # which Arrow takes for numbers
            return None
        if any_too_deep(joined, texts):
            return None
        options = pj.ReadOptions(use_threads=False, block_size=len(joined) + 1)
        table = pj.read_json(pa.BufferReader(joined), read_options=options, parse_options=fast(fields))
    except pa.ArrowException:
        return None
    if table.num_rows != len(lines):
        return None
    batch: pa.RecordBatch = one_batch(table)
    return batch.append_column("unreadable", pa.nulls(len(lines), pa.string()))


def fast(fields: pa.Schema) -> pj.ParseOptions:
    """These fields, and no others."""
    return pj.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore", newlines_in_values=False)


def any_too_deep(joined: bytes, texts: pa.Array) -> bool:
    """Whether a line is nested too deeply. There are few that have so many brackets at all."""
    if joined.count(b"{") + joined.count(b"[") - len(texts) < DEEPEST:
        return False
    brackets = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
    return any(map(too_deep, texts.filter(pc.greater(brackets, DEEPEST)).to_pylist()))


def too_deep(text: str) -> bool:
    """Whether it is nested too deeply, if it is JSON."""
    if text.count("{") + text.count("[") <= DEEPEST:
        return False
    depth = at = 0
    while (found := bracket_or_string(text, at)) is not None:
        at = found.end()
        if found[0] == '"':
            try:
                at = scanstring(text, at, False)[1]
            except json.JSONDecodeError:
                return False  # it is none
        else:
            depth += 1 if found[0] in "{[" else -1
            if depth > DEEPEST:
                return True
    return False


def read_one_by_one(lines: pa.Array, fields: pa.Schema = MESSAGE) -> pa.RecordBatch:
    """The fields of any lines; those of an unreadable one are null."""
    rows: list[dict[str, Any]] = []
    for line in lines.to_pylist():
        try:
            rows.append({} if line is None else read_line(line, fields.names))
        except UnreadableError as error:
            rows.append({"unreadable": str(error)})
    return pa.RecordBatch.from_pylist(rows, schema=fields.append(pa.field("unreadable", pa.string())))


def read_line(line: bytes, names: Collection[str] = tuple(MESSAGE.names)) -> dict[str, Any]:
    """The fields of a message, of those that it has. Raises UnreadableError."""
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
        raise UnreadableError(f"more behind the message: {cut(text[end:])}")
    return {name: of_type(name, *fields[name]) for name in fields}


def read_object(text: str, at: int, names: Collection[str]) -> tuple[dict[str, tuple[Any, str]], int]:
    """The fields of a message that an object has, each with its text, and where what follows the object begins."""

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
    """The value of a field. Raises UnreadableError where it is of another type than it must be."""
    if value is None:
        return None
    if name in ("cancel", "replace"):
        if not isinstance(value, bool):
            raise UnreadableError(f"{name} is neither true nor false: {cut(text)}")
        return value
    if name == "due":
        if not isinstance(value, Whole) or not -(2**63) <= (number := whole(value)) < 2**63:
            raise UnreadableError(f"due is no whole number of 64 bits: {cut(text)}")
        return number
    if isinstance(value, str) and not isinstance(value, Number):
        text = value
    elif name == "topic":
        raise UnreadableError(f"topic is no string: {cut(text)}")
    elif name != "payload" and not isinstance(value, Number):
        raise UnreadableError(f"{name} is neither a string nor a number: {cut(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnreadableError(f"{name} has half of a surrogate pair") from None
    return text


def whole(digits: str) -> int:
    """The number; one that is too large anyway where there are so many digits that Python would not convert them."""
    return int(digits) if len(digits) < 30 else 2**64


def cut(text: str) -> str:
    """The beginning of a text, for a reason, where half of a surrogate pair cannot be."""
    shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
    return shown.encode(errors="backslashreplace").decode()


def shown_lines(rows: pa.RecordBatch, lines: pa.Array, unit_ms: int) -> pa.Array:
    """The lines of malformed rows as text, null for the others."""
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
