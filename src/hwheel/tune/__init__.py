"""Find the tick, wheel size, and timeout that suit a log of timers: the code behind ``hwheel tune``.

Needs NumPy and pyarrow; the pictures need matplotlib (``pip install 'hwheel[tune]'``).
"""

from hwheel.extras import require

# Only the command draws, so rich and matplotlib are checked later.
require("hwheel.tune", "tune", without=("rich", "matplotlib"))
