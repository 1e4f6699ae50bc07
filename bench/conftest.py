"""Makes what lies beside this file importable, as it is for report.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
