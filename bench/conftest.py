"""Make the modules beside this file importable, as they are for report.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
