"""Writes a log of the timers of a running program: Parquet files for `hwheel tune` and `hwheel.replay`.

Needs pyarrow (`pip install 'hwheel[recorder]'`).

    recorder.py         Recorder: the bounded buffer, and the thread that empties it
    log_writer.py       the files
    recording_timer.py  RecordingTimer: a SystemTimer that tells a Recorder what becomes of its timers
"""

from hwheel.extras import needed_by

with needed_by("hwheel.recorder", "recorder"):
    from hwheel.recorder.recorder import Recorder, RecorderStats
    from hwheel.recorder.recording_timer import RecordingTimer

__all__ = ["Recorder", "RecorderStats", "RecordingTimer"]
