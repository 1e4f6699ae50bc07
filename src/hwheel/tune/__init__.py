"""Which tick, wheel size and timeout suit a log of timers: what stands behind `hwheel tune` and `hwheel.spark.replay`.

    grid.py             the ticks, sizes and timeouts that are tried
    curves.py           what is counted beside the costs; can be added up
    study.py            a log, or its parts, replayed on the whole grid
    advice.py           what to choose, and why
    pictures.py, report.py      the report

Needs NumPy and pyarrow; the pictures need matplotlib: `pip install 'hwheel[tune]'`.
"""

try:
    import numpy  # noqa: F401
    import pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(f"hwheel.tune needs {error.name}: pip install 'hwheel[tune]'") from error
