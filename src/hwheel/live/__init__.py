"""A live look at the timers of a running program: `hwheel top`, a page for browsers, and Prometheus' text.

The program opens a Unix socket, or a port of its own machine, on request; nothing costs anything until somebody looks.

>>> import os, tempfile
>>> import hwheel.live
>>> with tempfile.TemporaryDirectory() as directory:
...     path = os.path.join(directory, "timers.sock")
...     with hwheel.live.serve(path) as server:  # now, in a shell: hwheel top timers.sock
...         os.path.exists(path)
...     os.path.exists(path)
True
False
"""

from hwheel.live.server import LiveServer, serve

__all__ = ["LiveServer", "serve"]
