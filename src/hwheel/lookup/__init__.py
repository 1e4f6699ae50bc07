"""An index of held messages beside the state of `hwheel deliver`, which is read without Spark and Java."""

from hwheel.extras import needed_by

with needed_by("hwheel.lookup", "spark", without=("pyspark", "pandas", "google.protobuf")):
    import numpy  # noqa: F401  # pyright: ignore[reportUnusedImport]
    import pyarrow  # noqa: F401  # pyright: ignore[reportUnusedImport]
