"""Where a query's batches go, with a count."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from hwheel_core import HwheelError

# Spark looks through the text of what is raised here with a regular expression that takes a call a character: where
# Java's stack traces are in it, as they are in a batch that is cut off, that overflows the stack.
ERROR_MOST = 1500


class BatchNotWrittenError(HwheelError, RuntimeError):
    """A batch was not written, and why."""


@dataclass(kw_only=True)
class Sink(ABC):
    """What foreachBatch calls. `rows` and `lag_ms` are for showing."""

    rows: int = 0
    lag_ms: int | None = None  # of the latest of the last batch that had any

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self.write_and_count(batch, batch_id)
        except (Py4JJavaError, PySparkException) as error:
            raise BatchNotWrittenError(str(error)[:ERROR_MOST]) from None

    def write_and_count(self, batch: DataFrame, batch_id: int) -> None:
        """Writes a batch, and counts its rows and how late the first due of them is."""
        observed = Observation()
        self.write(batch.observe(observed, F.count(F.lit(1)).alias("rows"), F.min("due").alias("first_due")), batch_id)
        found = observed.get
        self.finish(batch, batch_id, bool(found["rows"]))
        if found["rows"]:
            self.rows += found["rows"]
            self.lag_ms = int(time.time() * 1000) - (found["first_due"] or 0)

    @abstractmethod
    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Writes it, in one action: another would run the batch again, state and all."""

    def finish(self, batch: DataFrame, batch_id: int, any_rows: bool) -> None:  # noqa: B027    (not every sink needs it)
        """What is left to do when all rows have been written."""
