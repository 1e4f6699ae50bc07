"""The logs of a query's checkpoint, in which Spark writes down of a batch what it has (offsets) and that it is done
(commits); and the batch with which a query goes on.

Spark begins a batch when there is new input, or when the batch before says that it has timers. A query that has just
been started has no batch before. So where its last batch was done, nothing that is held would go out until something
new came in. But a batch that is in the offsets and not in the commits is run at the start, whatever it has: a job that
is killed between the two leaves that behind. So before a start the next batch is written down here: a copy of the last
one, with its offsets, which is no input, and its time, at which nothing more is due. Nothing comes of it but that Spark
has a batch before, and goes on with one that looks for input, and only then at the time: a cancel that came while
nothing ran has to be seen before its message goes out.
"""

from hwheel.spark.deliver.files import Directory


def last_batch(query: Directory, log: str) -> int:
    """The latest of a log; -1: there is none."""
    if not query.exists(log):
        return -1
    return max((int(name) for name in query.names(log) if name.isdecimal()), default=-1)


def begin_next_batch(query: Directory) -> bool:
    """Writes down the next batch, if the last one is done; False if there is none, or it is not, or Spark's log is not
    as it was in the versions that are known. Not while the query runs."""
    begun = last_batch(query, "offsets")
    if begun < 0 or begun != last_batch(query, "commits"):
        return False
    text = query.read(f"offsets/{begun}")
    if not text.startswith("v1\n{") or text.count("\n") < 2:
        return False
    query.child_directory("offsets").write(str(begun + 1), text)
    return True
