"""A directory of output belongs to one checkpoint.

Its files are called by batch and task, and what is there already under a name is taken for the same batch, run before.
So a second job, or the first one with a new checkpoint, would see batches as done that are not, and their messages
would be lost. Hence a mark in the directory: the id that Spark keeps in the checkpoint of each query.
"""

from pyspark.sql import DataFrame

from hwheel.spark.deliver.files import Directory

MARK = ".hwheel-owner"
QUERY_ID = "sql.streaming.queryId"      # set by Spark for what runs inside a batch


class NotOurs(RuntimeError):
    """The directory belongs to another checkpoint."""


def claim(directory: Directory, batch: DataFrame) -> None:
    """Marks a directory as that of the query whose batch this is. Raises NotOurs where it is marked as another's."""
    query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if query_id is None:
        raise RuntimeError("an outbox takes the batches of a streaming query only")
    if not directory.exists(MARK):
        directory.write(MARK, query_id)
    if directory.read(MARK) != query_id:
        raise NotOurs(
            f"{directory.path} has the files of another checkpoint: give each checkpoint an output directory of its "
            f"own (or, if nobody needs these files any more, remove them all, and {MARK})"
        )
