"""When what nobody holds any more is gone."""

import gc
import sys
import sysconfig

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
# CPython 3.13 without a GIL keeps classes and functions for ever, once it has had a second thread.
CLASSES_STAY = FREE_THREADED and sys.version_info < (3, 14)


def let_go():
    """For a look at whether an object is gone: with a GIL it is gone at once. Without one it is so later, and rightly:
    CPython has what another thread dropped freed by the thread that made it, once that runs Python again, or by a
    collection, whichever comes first."""
    if FREE_THREADED:
        gc.collect()
