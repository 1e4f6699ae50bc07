"""Import path for the model tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # for reach.py: the suite's import mode does not add it
