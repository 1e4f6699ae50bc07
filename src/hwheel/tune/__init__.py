"""Which tick, wheel size and timeout suit a log of timers: what stands behind `hwheel tune` and `hwheel.spark.replay`.

    grid.py             the ticks, sizes and timeouts that are tried
    curves.py           what is counted beside the costs; can be added up
    study.py            a log, or its parts, replayed on the whole grid
    advice.py           what to choose, and why
    pictures.py, report.py      the report

Needs NumPy and pyarrow; the pictures need matplotlib: `pip install 'hwheel[tune]'`.
"""

from hwheel.extras import require

# What draws is wanted later, by those who want pictures.
require("hwheel.tune", "tune", without=("rich", "matplotlib"))
