"""Delayed delivery on Spark Structured Streaming: messages are held durably until they are due.

Needs ``pip install 'hwheel[spark]'`` and Java 17 or later. The import starts no session.
"""

from hwheel.extras import needed_by

with needed_by("hwheel.spark", "spark"):
    # Spark's stateful operators need these two, but report a missing one only when a query starts.
    import google.protobuf  # noqa: F401  # pyright: ignore[reportUnusedImport]
    import pandas  # noqa: F401  # pyright: ignore[reportUnusedImport]

    from hwheel.spark.hold import dead_letters, hold_until_due

__all__ = ["dead_letters", "hold_until_due"]
