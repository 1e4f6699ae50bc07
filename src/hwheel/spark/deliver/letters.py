"""Dead letters: the codes of their reasons, and the resubmission of their lines."""

import re

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hwheel.spark.deliver.directory import Directory
from hwheel.spark.deliver.sink import SUFFIXES, DirectorySink

WHOLE_FILE, TOO_LATE = "unreadable-file", "too-late"
OTHER = "other"
# A pattern for each code that matches its reasons. The first match counts.
PATTERNS = {
    WHOLE_FILE: "^the file cannot be read",
    "too-large": "^larger than ",
    TOO_LATE: "^later than ",
    "not-utf8": "^not UTF-8| has half of a surrogate pair$",
    "not-json": "^not a JSON object$|^more behind the message|^nested too deeply$",
    "repeated-field": r"^\w+ is there twice$",
    "unknown-topic": "^topic is none of --to-topics",
    "wrong-type": r"^\w+ is (neither|no) ",
    "no-id": "^id is (null|empty)$",
    "no-due": "^due is null$",
    "due-out-of-range": "^due is not between",
    "cancel-and-replace": "^cancel and replace are both true$",
}
CODES = (*PATTERNS, OTHER)
CHANGED_LINES = ("too-large", "not-utf8")  # the letter has only the beginning of the line, or U+FFFD for some bytes
COLUMNS = "time bigint, code string, reason string, line string, file string, number bigint, block bigint"


def code_of(reason: Column) -> Column:
    """Return the code of a reason."""
    found = F.lit(OTHER)
    for code, pattern in reversed(PATTERNS.items()):
        found = F.when(reason.rlike(pattern), code).otherwise(found)
    return found


def letters_in(spark: SparkSession, place: str) -> DataFrame | None:
    """Return the dead letters of a directory with the columns of COLUMNS, or None if it has none.

    Raises:
        ValueError: The letters are rows of Parquet, which have no lines.
    """
    names = [name for name in Directory(spark, place).names(".") if name[0] not in "._"]
    if any(name.endswith(SUFFIXES["parquet"]) for name in names):
        raise ValueError(f"{place} has rows of Parquet: read, fix, and move them in with any tool for Parquet")
    return spark.read.schema(COLUMNS).json(place) if names else None


def resubmit(letters: DataFrame, owner: str, target: str) -> int:
    """Write the lines of dead letters, except changed ones, as new input files. Return the number of lines.

    The name of a file has the batch of its letters and their code. A job reads a name once, so it reads letters once
    even if they are resubmitted twice.

    Args:
        letters: The columns of COLUMNS.
        owner: A text that no other directory of dead letters has.
        target: The input directory of a job, or another directory.
    """
    batch = F.regexp_extract("_metadata.file_name", r"^((?:late-)?\d+)", 1).alias("batch")
    is_whole = F.col("line").isNotNull() & ~F.col("code").isin(*CHANGED_LINES)
    lines = letters.select("code", "line", batch).where(is_whole)
    sink = DirectorySink(target, "text")
    groups = lines.groupBy("batch", "code").count().collect()
    for row in groups:
        of_group = lines.where((F.col("batch") == row.batch) & (F.col("code") == row.code)).select("line")
        sink.add(of_group, f"again-{re.sub('[^0-9a-f]', '', owner)[:12]}-{row.batch}-{row.code}")
    return sum(row["count"] for row in groups)
