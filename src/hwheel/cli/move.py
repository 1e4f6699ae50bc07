"""`hwheel move`: move all held messages of a checkpoint to another job."""

import argparse
from typing import Any

from hwheel.cli.common import CommandError, add_spark_options, add_subcommand, spark_session
from hwheel.extras import require

DESCRIPTION = """\
Write all messages that a checkpoint of `hwheel deliver` holds as input files
for another job, which can have another tick, wheel size, number of shards or
partitions, or cluster. The job of the checkpoint cannot start again.
"""

EPILOG = """\
examples:
  hwheel move --checkpoint state --to in2
  hwheel deliver --from in2 --to out2 --checkpoint state2 --tick 100ms

Let all senders use the new input, let the old job read the rest of its input,
and stop it. Then move its messages and start the new job. After an
interruption, run the command again.
"""


def add_to(commands: Any) -> None:
    """Add `move` to the subcommands."""
    help = "move the pending messages of `deliver` to another job"
    add = add_subcommand(commands, "move", run, help, (DESCRIPTION, EPILOG)).add_argument
    add("--checkpoint", metavar="DIR", required=True, help="the checkpoint of a job that is stopped")
    add("--to", metavar="DIR", required=True, help="the input directory of the other job")
    add_spark_options(add)


def run(options: argparse.Namespace) -> int:
    """Move the messages."""
    require(options.prog, "spark")
    with spark_session(options) as spark:
        from hwheel.spark.deliver.checkpoint import only_job
        from hwheel.spark.deliver.directory import Directory
        from hwheel.spark.deliver.move import move

        checkpoint = Directory(spark, options.checkpoint)
        if not checkpoint.exists():
            raise CommandError(f"--checkpoint: the directory {options.checkpoint} does not exist")
        try:
            with only_job(checkpoint):
                lines = move(checkpoint, Directory(spark, options.to))
        except ValueError as error:
            raise CommandError(str(error)) from None
    print(f"{lines:,} lines are in {options.to}")
    return 0
