"""Write a log of a running program's timers: Parquet files for ``hwheel tune`` and ``hwheel.replay``.

Needs pyarrow (``pip install 'hwheel[recorder]'``).
"""

from hwheel.extras import needed_by

with needed_by("hwheel.recorder", "recorder"):
    from hwheel.recorder.recorder import Recorder, RecorderStats
    from hwheel.recorder.recording_timer import RecordingTimer

__all__ = ["Recorder", "RecorderStats", "RecordingTimer"]
