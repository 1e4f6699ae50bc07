"""A client of Spark Connect that delivers the messages of DIRECTORY/in to DIRECTORY/out.

    over_connect.py REMOTE DIRECTORY MESSAGES

It restarts the query after the first messages, and ends when MESSAGES are delivered.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from hwheel.spark import hold_until_due

PATIENCE_S = 1800
SCHEMA = "id string, key string, due bigint, cancel boolean, payload string"


def main():
    remote, directory, wanted = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    spark = SparkSession.builder.remote(remote).config("spark.sql.shuffle.partitions", 2).getOrCreate()
    messages = spark.readStream.schema(SCHEMA).json(str(directory / "in"))
    due = messages.transform(hold_until_due, id="id", key="key", due="due", cancel="cancel", tick="100 ms")
    give_up = time.monotonic() + PATIENCE_S
    for until in (1, wanted):
        # A query that was stopped between two batches resumes with the next input.
        (directory / "in" / f"{until}.json").write_text("\n")
        query = (
            due.writeStream.format("json")
            .option("path", str(directory / "out"))
            .option("checkpointLocation", str(directory / "state"))
            .trigger(processingTime="500 milliseconds")
            .start()
        )
        while len([*written(directory / "out")]) < until:
            assert query.isActive, query.exception()
            assert time.monotonic() < give_up, "messages are missing"
            time.sleep(0.5)
        query.stop()
    spark.stop()


def written(out):
    """Yield (row, time of writing) of the files in the log of Spark's sink. Other files are of interrupted batches."""
    files = {}
    for log in (out / "_spark_metadata").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            files[entry["path"].removeprefix("file://")] = entry["modificationTime"]
    for name, written_ms in files.items():
        for row in Path(name).read_text().splitlines():
            yield json.loads(row), written_ms


if __name__ == "__main__":
    main()
