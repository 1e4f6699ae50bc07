"""The limit of --rate."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from hwheel.spark.worker import begin_task

PIECE_S = 0.05  # the time that one slice of rows takes


@dataclass(frozen=True)
class Throttle:
    """Yield rows in order at a limited rate. Runs inside mapInArrow.

    The limit is exact over a task. A batch with more rows than the limit takes that much longer.

    Args:
        rate: Rows a second.
    """

    rate: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        step, sent, begun_s = max(1, int(self.rate * PIECE_S)), 0, time.monotonic()
        for batch in batches:
            for start in range(0, batch.num_rows, step):
                piece = batch.slice(start, step)
                yield piece
                sent += piece.num_rows
                time.sleep(max(0.0, begun_s + sent / self.rate - time.monotonic()))
