"""Reading a log of requests: JSON lines or CSV, with start, timeout and end in milliseconds."""

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hwheel.cli.common import CommandError
from hwheel.cli.demo.workload import Request

FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv"}
FIELDS = ("start", "timeout", "end")
MS_MOST = 2.0**53  # what a float holds to the millisecond


def read_log(path: Path, log_format: str | None = None) -> list[Request]:
    """The requests of a log. log_format: "jsonl" or "csv"; None: by the file's extension.

    Raises CommandError, which names the line, for what is no request.
    """
    log_format = log_format or FORMATS.get(path.suffix.lower())
    if log_format is None:
        raise CommandError(f"{path}: neither .jsonl nor .csv; say which it is by --format")
    read = read_csv if log_format == "csv" else read_jsonl
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            requests = [_request(fields, f"{path}, line {number}") for number, fields in read(lines, str(path))]
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path}: not text in UTF-8") from None
    if not requests:
        raise CommandError(f"{path}: no requests in it")
    return requests


def read_jsonl(lines: Iterable[str], path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line's number and object; blank lines are passed over."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
            raise CommandError(f"{path}, line {number}: not JSON: {reason}") from None
        if not isinstance(fields, dict):
            raise CommandError(f"{path}, line {number}: not an object with start, timeout and end")
        yield number, fields


def read_csv(lines: Iterable[str], path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each record's last line number and fields by name; the first line names them."""
    reader = csv.DictReader(lines, strict=True)
    try:
        names = [name.strip() for name in reader.fieldnames or []]
        reader.fieldnames = names
        if names and not {"start", "timeout"} <= set(names):
            raise CommandError(f"{path}, line 1: the first line must name the columns start, timeout and end")
        for fields in reader:
            if None in fields or None in fields.values():
                raise CommandError(f"{path}, line {reader.line_num}: not as many fields as the first line names")
            yield (
                reader.line_num,
                {
                    name: _csv_value(text, f"{path}, line {reader.line_num}", name)
                    for name, text in fields.items()
                    if name in FIELDS
                },
            )
    except csv.Error as error:
        raise CommandError(f"{path}, line {reader.reader.line_num}: not CSV: {error}") from None


def _csv_value(text: str, where: str, name: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise CommandError(f"{where}: {name} must be a number of ms, not {text!r}") from None


def _request(fields: dict[str, Any], where: str) -> Request:
    start_ms = _milliseconds(fields, "start", where)
    timeout_ms = _milliseconds(fields, "timeout", where)
    end_ms = None if fields.get("end") is None else _milliseconds(fields, "end", where)
    if timeout_ms <= 0:
        raise CommandError(f"{where}: timeout must be above 0, not {timeout_ms:g}")
    if end_ms is not None and end_ms < start_ms:
        raise CommandError(f"{where}: it ends before it starts: {end_ms:g} < {start_ms:g}")
    return Request(start_ms, timeout_ms, end_ms)


def _milliseconds(fields: dict[str, Any], name: str, where: str) -> float:
    value = fields.get(name)
    if value is None:
        raise CommandError(f"{where}: {name} is missing")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CommandError(f"{where}: {name} must be a number of ms, not {value!r}")
    if not -MS_MOST <= value <= MS_MOST:  # NaN is not either
        raise CommandError(f"{where}: {name} is out of range: {str(value):.40}")
    return float(value)
