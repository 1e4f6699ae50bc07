"""A directory that gets each batch's messages exactly once, for whoever reads its files.

Spark's own file sink is exactly-once for readers that follow its log, and shows others what an attempt left behind that
was killed. Here each file is written in a hidden place first and then renamed to a name that batch and task decide. A
batch that is run again after a crash has the same rows (its offsets, its time and its state are logged), so a file that
is there already is the right one, and the new one is dropped.
"""

import time
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from hwheel.spark.files import Directory
from hwheel.spark.ownership import claim

STAGING = ".staging"
SUFFIXES = {"json": ".json", "parquet": ".parquet"}


@dataclass
class Outbox:
    """What foreachBatch calls. `rows` and `lag_ms` are for showing."""

    path: str
    format: str
    rows: int = 0
    lag_ms: int | None = None       # of the latest of the last batch that had any
    claimed: bool = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        directory = Directory(batch.sparkSession, self.path)
        if not self.claimed:
            claim(directory, batch)
            self.claimed = True
        staging = f"{STAGING}/{batch_id}"
        observed = Observation()
        counted = batch.observe(observed, F.count(F.lit(1)).alias("rows"), F.min("due").alias("first_due"))
        # One action: another would run the batch again, state and all.
        counted.write.format(self.format).mode("overwrite").save(f"{self.path}/{staging}")
        found = observed.get
        if found["rows"]:
            for name in directory.names(staging):
                if name.startswith("part-"):
                    task = name.split("-")[1]
                    directory.move(f"{staging}/{name}", f"{batch_id:09d}-{task}{SUFFIXES[self.format]}")
            self.rows += found["rows"]
            self.lag_ms = int(time.time() * 1000) - (found["first_due"] or 0)
        directory.delete(STAGING)
