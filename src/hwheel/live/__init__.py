"""Snapshots of a running program's timers, for ``hwheel top``, for browsers, and for Prometheus.

The program opens a Unix socket or a local port. The server costs nothing between requests.

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
