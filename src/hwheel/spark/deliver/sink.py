"""Where a query's batches go, with a count."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from hwheel.spark.deliver.failures import Failure, failure_of
from hwheel_core import HwheelError

# A due that would be in 1970 or thereabouts as ms, and in the years to come as seconds.
LIKE_SECONDS = (10**8, 10**11)


class BatchNotWrittenError(HwheelError, RuntimeError):
    """A batch was not written, and why."""


@dataclass(kw_only=True)
class Sink(ABC):
    """What foreachBatch calls. `rows`, `lag_ms` and `like_seconds` are for showing. `batches`: those written."""

    rows: int = 0
    batches: int = 0
    lag_ms: int | None = None  # of the latest of the last batch that had any
    like_seconds: int = 0  # so many went out whose due looks as if it were in seconds
    failure: Failure | None = None  # of the last batch that was not written

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self.write_and_count(batch, batch_id)
            self.batches += 1
            self.failure = None
        except Exception as error:
            # Spark looks through the text of what is raised here with a regular expression that takes a call a
            # character: where Java's stack traces are in it, that overflows the stack. So all of it is kept here.
            self.failure = failure_of(error)
            raise BatchNotWrittenError(self.failure.what) from None

    def write_and_count(self, batch: DataFrame, batch_id: int) -> None:
        """Writes a batch, and counts its rows and how late the first due of them is."""
        observed = Observation()
        counts = [
            F.count(F.lit(1)).alias("rows"),
            F.min("due").alias("first_due"),
            F.count_if(F.col("due").between(*LIKE_SECONDS)).alias("like_seconds"),
        ]
        self.write(batch.observe(observed, *counts), batch_id)
        found = observed.get
        self.finish(batch, batch_id, bool(found["rows"]))
        if found["rows"]:
            self.rows += found["rows"]
            self.like_seconds += found["like_seconds"]
            self.lag_ms = int(time.time() * 1000) - (found["first_due"] or 0)

    @abstractmethod
    def add(self, rows: DataFrame, name: str) -> None:
        """Writes rows that are of no batch; once for a name, where that can be."""

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Writes it, in one action: another would run the batch again, state and all."""

    def finish(self, batch: DataFrame, batch_id: int, any_rows: bool) -> None:  # noqa: B027    (not every sink needs it)
        """What is left to do when all rows have been written."""
