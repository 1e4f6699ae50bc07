"""What Spark's Python workers have in memory for good is not looked at by the collector after each of their tasks."""

import subprocess
import sys

import pytest

IN_A_WORKER = """
import gc
from unittest.mock import MagicMock

from pyspark import TaskContext

from hwheel.spark.deliver.json_lines import JsonLines
from hwheel.spark.worker import Packer, unpack
from hwheel.spark.worker import HoldProcessor

def begin():
    {begin}

begin()
assert gc.get_freeze_count() == 0, "this is no worker yet"
TaskContext._setTaskContext(TaskContext())
for _ in range(2):
    gc.collect()
    begin()
assert len(gc.get_objects()) < 5000 < gc.get_freeze_count()
frozen, kept = gc.get_freeze_count(), [[] for _ in range(10_000)]
begin()
assert gc.get_freeze_count() <= frozen, "what a task makes is collected as ever"
"""


@pytest.mark.parametrize(
    "begin",
    ["[*Packer([0])([])]", "[*unpack([])]", "[*JsonLines(1)([])]", "HoldProcessor(MagicMock()).init(MagicMock())"],
)
def test_what_is_there_for_good_is_not_collected_after_each_task(begin):
    subprocess.run([sys.executable, "-P", "-c", IN_A_WORKER.format(begin=begin)], check=True, timeout=120)
