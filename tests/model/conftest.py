"""How long the models run. HWHEEL_MODEL_EXAMPLES=50 makes it fifty times as long, with other examples each time.

By itself a run is the same every time, so that a failure in CI is the same failure at home.
"""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings

sys.path.append(str(Path(__file__).parent))     # for reach and lived_through: the suite's import mode leaves it out

MULTIPLIER = float(os.environ.get("HWHEEL_MODEL_EXAMPLES", "1"))

settings.register_profile(
    "model",
    max_examples=max(1, round(400 * MULTIPLIER)),
    stateful_step_count=40,
    deadline=None,                      # the machine may be slow and shared
    derandomize=MULTIPLIER == 1,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    database=None,                      # a failure prints how to reproduce it
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
