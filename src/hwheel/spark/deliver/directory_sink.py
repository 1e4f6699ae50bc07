"""A directory that gets each batch's messages exactly once, for whoever reads its files.

Spark's own file sink is exactly-once for readers that follow its log, and shows others what an attempt left behind that
was killed. Here each file is written in a hidden place first and then renamed to a name that batch and task decide. A
batch that is run again after a crash has the same rows (its offsets, its time and its state are logged), so a file that
is there already is the right one, and the new one is dropped.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame

from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.ownership import claim
from hwheel.spark.deliver.sink import Sink

STAGING = ".staging"
SUFFIXES = {"json": ".json", "parquet": ".parquet"}


@dataclass
class Outbox(Sink):
    """The directory, and the format of its files."""

    path: str
    format: str
    claimed: bool = False

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Writes hidden files."""
        if not self.claimed:
            claim(Directory(batch.sparkSession, self.path), batch)
            self.claimed = True
        batch.write.format(self.format).mode("overwrite").save(f"{self.path}/{STAGING}/{batch_id}")

    def finish(self, batch: DataFrame, batch_id: int, any_rows: bool) -> None:
        """Gives them their names."""
        directory = Directory(batch.sparkSession, self.path)
        staging = f"{STAGING}/{batch_id}"
        for name in directory.names(staging) if any_rows else ():
            if name.startswith("part-"):
                task = name.split("-")[1]
                directory.move(f"{staging}/{name}", f"{batch_id:09d}-{task}{SUFFIXES[self.format]}")
        directory.delete(STAGING)
