"""A directory that gets each batch's messages exactly once, for whoever reads its files.

Spark's own file sink is exactly-once for readers that follow its log, and shows others what an attempt left behind that
was killed. Here each file is written in a hidden place first and then renamed to a name that batch and task decide. A
batch that is run again after a crash has the same rows (its offsets, its time and its state are logged), so a file that
is there already is the right one, and the new one is dropped.

The same rows, but not always in the same order: how Spark divides input among tasks hangs on the cores, and that is the
order of arrival. Where a task writes several files, the first of one attempt and the second of another would share rows
and lack others. So what was written whole is what goes out, and a later attempt of the batch is dropped.

So a directory belongs to one checkpoint: a second job, or the first one with a new checkpoint, would see batches as
done that are not, and their messages would be lost. Hence a mark in the directory: the id that Spark keeps in the
checkpoint of each query.
"""

import re
from dataclasses import dataclass

from pyspark.sql import DataFrame

from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.sink import BatchNotWrittenError, Sink
from hwheel_core import HwheelError

STAGING = ".staging"
WHOLE = "_SUCCESS"  # Spark writes it when all files of an attempt are there
WRITE_WHOLE = "mapreduce.fileoutputcommitter.marksuccessfuljobs"
SUFFIXES = {"json": ".json", "parquet": ".parquet"}
MARK = ".hwheel-owner"
QUERY_ID = "sql.streaming.queryId"  # set by Spark for what runs inside a batch


# A task may write several files, which Spark numbers behind the c: with spark.sql.files.maxRecordsPerFile it does.
PART = re.compile(r"part-(?P<task>\d+)-.*-c(?P<number>\d+)(?:\.|$)")


class DirectoryTakenError(HwheelError, RuntimeError):
    """The directory belongs to another checkpoint."""


@dataclass
class DirectorySink(Sink):
    """What foreachBatch calls: writes into a directory, in files of a format.

    `one_file`: a batch is one file, whatever spark.sql.files.maxRecordsPerFile says. It has to be where the rows of a
    task or their order may differ when a batch is run again, because its files would then not be those that are there.
    """

    path: str
    format: str
    one_file: bool = False
    claimed: bool = False

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Writes the rows into hidden files, beside those of an attempt that was cut off, if these are all there."""
        if not self.claimed:
            claim(Directory(batch.sparkSession, self.path), batch)
            self.claimed = True
        if self.one_file:
            batch = batch.repartition(1)
        writer = batch.write.format(self.format).mode("overwrite").option(WRITE_WHOLE, "true")
        if self.one_file:
            writer = writer.option("maxRecordsPerFile", 0)
        staging = f"{STAGING}/{batch_id}"
        if Directory(batch.sparkSession, self.path).exists(f"{staging}/{WHOLE}"):
            staging += "-again"  # it has to be written, because the state gets its rows by it
        writer.save(f"{self.path}/{staging}")

    def add(self, rows: DataFrame, name: str) -> None:
        """A file of its own, which is there once."""
        directory, staging = Directory(rows.sparkSession, self.path), f"{STAGING}-{name}"
        rows.coalesce(1).write.format(self.format).mode("overwrite").save(f"{self.path}/{staging}")
        for part in directory.names(staging):
            if part.startswith("part-"):
                directory.move(f"{staging}/{part}", f"{name}{SUFFIXES[self.format]}")
        directory.delete(staging)

    def finish(self, batch: DataFrame, batch_id: int, any_rows: bool) -> None:
        """Gives the hidden files the names by which readers find them."""
        directory = Directory(batch.sparkSession, self.path)
        staging = f"{STAGING}/{batch_id}"
        for name, final in self.final_names(directory.names(staging) if any_rows else [], batch_id).items():
            # What is there already is of an earlier attempt of this batch, because the names of this one all differ.
            if not directory.move(f"{staging}/{name}", final) and not directory.exists(final):
                raise BatchNotWrittenError(f"{self.path}/{staging}/{name} could not be renamed to {final}")
        directory.delete(STAGING)

    def final_names(self, staged: list[str], batch_id: int) -> dict[str, str]:
        """By what readers know the files of an attempt. BatchNotWrittenError where two would have one name, because
        one of them would be lost."""
        names = {}
        for name in staged:
            if not name.startswith("part-"):
                continue
            part = PART.match(name)
            if part is None:
                raise BatchNotWrittenError(f"{name} is not called as Spark calls what a task writes")
            number = "" if int(part["number"]) == 0 else f"-{part['number']}"
            names[name] = f"{batch_id:09d}-{part['task']}{number}{SUFFIXES[self.format]}"
        if len({*names.values()}) < len(names):
            raise BatchNotWrittenError(f"two files of batch {batch_id} would have the same name: {sorted(names)}")
        return names


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
            f"{directory.path} has the files of another checkpoint\n"
            "give each checkpoint an output directory of its own (or, if nobody needs these files any more, remove "
            f"them all, and {MARK})"
        )
