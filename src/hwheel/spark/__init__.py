"""Delayed delivery on Spark Structured Streaming: messages with a due time are held durably, and go out when due.

Needs `pip install 'hwheel[spark]'` and Java 17 or later. Nothing starts a session at import.
"""

from hwheel.extras import needed_by

with needed_by("hwheel.spark", "spark"):
    import google.protobuf  # noqa: F401  # pyright: ignore[reportUnusedImport]    (Spark's state needs these two, and says so late)
    import pandas  # noqa: F401  # pyright: ignore[reportUnusedImport]

    from hwheel.spark.hold import dead_letters, hold_until_due

__all__ = ["dead_letters", "hold_until_due"]
