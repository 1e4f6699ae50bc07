"""A directory that gets each batch's messages exactly once, for whoever reads its files.

Spark's own file sink is exactly-once for readers that follow its log, and shows others what an attempt left behind that
was killed. Here each file is written in a hidden place first and then renamed to a name that batch and task decide. A
batch that is run again after a crash has the same rows (its offsets, its time and its state are logged), so a file that
is there already is the right one, and the new one is dropped.

So a directory belongs to one checkpoint: a second job, or the first one with a new checkpoint, would see batches as
done that are not, and their messages would be lost. Hence a mark in the directory: the id that Spark keeps in the
checkpoint of each query.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame

from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.sink import Sink
from hwheel_core import HwheelError

STAGING = ".staging"
SUFFIXES = {"json": ".json", "parquet": ".parquet"}
MARK = ".hwheel-owner"
QUERY_ID = "sql.streaming.queryId"  # set by Spark for what runs inside a batch


class DirectoryTakenError(HwheelError, RuntimeError):
    """The directory belongs to another checkpoint."""


@dataclass
class DirectorySink(Sink):
    """What foreachBatch calls: writes into a directory, in files of a format."""

    path: str
    format: str
    claimed: bool = False

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Writes the rows into hidden files."""
        if not self.claimed:
            claim(Directory(batch.sparkSession, self.path), batch)
            self.claimed = True
        batch.write.format(self.format).mode("overwrite").save(f"{self.path}/{STAGING}/{batch_id}")

    def finish(self, batch: DataFrame, batch_id: int, any_rows: bool) -> None:
        """Gives the hidden files the names by which readers find them."""
        directory = Directory(batch.sparkSession, self.path)
        staging = f"{STAGING}/{batch_id}"
        for name in directory.names(staging) if any_rows else ():
            if name.startswith("part-"):
                task = name.split("-")[1]
                directory.move(f"{staging}/{name}", f"{batch_id:09d}-{task}{SUFFIXES[self.format]}")
        directory.delete(STAGING)


def claim(directory: Directory, batch: DataFrame) -> None:
    """Marks a directory as that of the query whose batch this is. Raises DirectoryTakenError where it is marked as
    another's."""
    query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if query_id is None:
        raise RuntimeError("a DirectorySink takes the batches of a streaming query only")
    if not directory.exists(MARK):
        directory.write(MARK, query_id)
    if directory.read(MARK) != query_id:
        raise DirectoryTakenError(
            f"{directory.path} has the files of another checkpoint: give each checkpoint an output directory of its "
            f"own (or, if nobody needs these files any more, remove them all, and {MARK})"
        )
