"""Stand-ins for the progress reports of a delivery's Spark queries."""

from types import SimpleNamespace


def batch(number, rows, took_ms=100, sst=0, memory=0):
    """Return the report of one batch, as in lastProgress."""
    return SimpleNamespace(
        batchId=number,
        numInputRows=rows,
        durationMs={"triggerExecution": took_ms, "addBatch": took_ms - 1},
        stateOperators=[SimpleNamespace(memoryUsedBytes=memory, customMetrics={"rocksdbSstFileSize": sst})],
    )


class Query:
    """A query that reports these batches."""

    def __init__(self, batches):
        self.recentProgress = batches

    @property
    def lastProgress(self):
        return self.recentProgress[-1] if self.recentProgress else None


def reported(batches, out=0, lag_ms=None, dead=0, late=0):
    """Return a delivery whose query reports these batches and whose sinks have these counts."""
    return SimpleNamespace(
        messages=Query(batches),
        sink=SimpleNamespace(rows=out, lag_ms=lag_ms, late_arrivals=late, lateness=[1, *[2] * 11], lateness_sum_s=0.3),
        dead_sink=SimpleNamespace(rows=dead, codes={"no-id": dead, "other": 0}),
    )
