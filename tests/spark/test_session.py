"""The session of the command."""

import logging
import signal

import pytest
from pyspark.core import context

from hwheel.spark.session import local


def test_ctrl_c_while_spark_starts_is_ours(monkeypatch, capfd):
    """A SparkContext sets a handler of its own, which raises in the midst of a call to Java."""
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def started(builder, packages):
        context.signal.signal(context.signal.SIGINT, lambda *_: None)  # as SparkContext does
        seen.append(signal.getsignal(signal.SIGINT))
        logging.getLogger("py4j.clientserver").error("a call to Java was interrupted, and here is a traceback")
        raise KeyboardInterrupt

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # as if spark-submit had started Java
    monkeypatch.setattr(local, "started", started)
    level = logging.getLogger("py4j").level
    try:
        with pytest.raises(KeyboardInterrupt):
            local.make_session("local[1]", {}, quiet=True)
    finally:
        found = signal.signal(signal.SIGINT, before)
        logging.getLogger("py4j").setLevel(level)
    assert (seen, found) == ([before], before)
    assert "traceback" not in capfd.readouterr().err
    assert context.signal is signal
