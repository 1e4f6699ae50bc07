"""The simplest implementation: a group, a state value, and a timer for each message."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

MESSAGE = "id string, key string, due bigint, payload string"


class OneTimerProcessor(StatefulProcessor):
    """Holds a message in a value state until its timer fires."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.message = handle.getValueState("message", "key string, due bigint, payload string")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self.message.update((row.key, row.due, row.payload))
            self.handle.registerTimer(row.due)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        held, due, payload = self.message.get()
        self.message.clear()
        yield Row(id=key[0], key=held, due=due, payload=payload)


def one_timer_a_message(df: DataFrame) -> DataFrame:
    """Return the query."""
    return df.groupBy("id").transformWithState(OneTimerProcessor(), MESSAGE, "Append", "ProcessingTime")
