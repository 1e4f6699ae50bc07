"""A timing wheel for extensions in C and Cython, with callbacks in C and without the GIL.

The interface is ``hwheel.h`` and ``hwheel/c_api.pxd``, which are installed with the package.
"""

from pathlib import Path

import hwheel_core

__all__ = ["get_include"]


def get_include() -> str:
    """Return the folder of hwheel.h, for the include path of a compiler.

    >>> from pathlib import Path
    >>> from hwheel.c_api import get_include
    >>> (Path(get_include()) / "hwheel.h").exists()
    True
    """
    return str(Path(hwheel_core.__file__).parent / "c_api")
