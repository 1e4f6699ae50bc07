"""What the models share."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # for reach: the suite's import mode leaves it out
