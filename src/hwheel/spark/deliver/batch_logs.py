"""The logs of a query's checkpoint, in which Spark writes down of a batch what it has (offsets) and that it is done
(commits); and the batch with which a query goes on.

Spark begins a batch when there is new input, or when the batch before says that it has timers. A query that has just
been started has no batch before. So where its last batch was done, nothing that is held would go out until something
new came in. But a batch that is in the offsets and not in the commits is run at the start, whatever it has: a job that
is killed between the two leaves that behind. So before a start the next batch is written down here as Spark would have
done it for the sake of timers: with the offsets of the last, which is no input, and the time of now.
"""

import json
import time

from hwheel.spark.deliver.files import Directory


def last_batch(query: Directory, log: str) -> int:
    """The latest of a log; -1: there is none."""
    if not query.exists(log):
        return -1
    return max((int(name) for name in query.names(log) if name.isdecimal()), default=-1)


def begin_next_batch(query: Directory) -> bool:
    """Writes down the next batch, if the last one is done; False if nothing was to be done, or Spark's log is not as it
    was in the versions that are known. Not while the query runs.
    """
    begun = last_batch(query, "offsets")
    if begun < 0 or begun != last_batch(query, "commits"):
        return False
    version, _, rest = query.read(f"offsets/{begun}").partition("\n")
    first, _, offsets = rest.partition("\n")
    try:
        about = json.loads(first)
    except ValueError:
        return False
    if version != "v1" or not isinstance(about, dict) or "batchTimestampMs" not in about or not offsets:
        return False
    about["batchTimestampMs"] = int(time.time() * 1000)
    text = "\n".join([version, json.dumps(about, separators=(",", ":")), offsets])
    query.child_directory("offsets").write(str(begun + 1), text)
    return True
