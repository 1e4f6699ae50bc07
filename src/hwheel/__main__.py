"""The `hwheel` command, also `python -m hwheel`."""

import sys

from hwheel.cli.command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
