"""The `hwheel` command, also `python -m hwheel`, and the file that spark-submit is given."""

import os
import sys

if __name__ == "__main__" and sys.path[:1] == [os.path.dirname(os.path.abspath(__file__))]:
    # Run by its path. Python then looks in this directory first, where threading, asyncio and sched are not its own.
    del sys.path[0]

from hwheel.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
