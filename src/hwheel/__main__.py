"""The ``hwheel`` command, also ``python -m hwheel``, and the file for spark-submit."""

import os
import sys

if __name__ == "__main__" and sys.path[:1] == [os.path.dirname(os.path.abspath(__file__))]:
    # Run by its path, Python searches this directory first, where `threading` and `asyncio` are hwheel's own.
    del sys.path[0]

from hwheel.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
