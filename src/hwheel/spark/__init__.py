"""Delayed delivery on Spark Structured Streaming: messages with a due time are held durably, and go out when due.

Needs `pip install 'hwheel[spark]'` and Java 17 or later. Nothing starts a session at import.
"""

try:
    import google.protobuf  # noqa: F401    (Spark's state needs these two, and says so late)
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
except ImportError as error:
    raise ImportError(f"hwheel.spark needs {error.name}: pip install 'hwheel[spark]'") from error

from hwheel.spark.hold import dead_letters, hold_until_due

__all__ = ["dead_letters", "hold_until_due"]
