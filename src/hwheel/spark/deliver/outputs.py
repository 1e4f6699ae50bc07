"""Where the batches of a checkpoint went. A start with another place is taken, unless a batch that is not done has
files where the one before wrote: it is run again, and its messages would be in both."""

import json

from hwheel.spark.deliver.batch_logs import last_batch
from hwheel.spark.deliver.files import Directory
from hwheel.spark.deliver.topic import is_topic
from hwheel_core import HwheelError

OUTPUTS = "hwheel-outputs.json"


class BatchElsewhereError(HwheelError, ValueError):
    """A batch that comes again has files in another place than it is to go to now."""


def keep_outputs(checkpoint: Directory, places: dict[str, str], options: dict[str, str]) -> None:
    """Writes down where each query writes, and checks it against what was written down before. Not while they run.

    `places`, `options`: by the query's directory in the checkpoint, where it writes, and the option that says so.

    Raises:
        BatchElsewhereError: the last batch of a query has files elsewhere, and is not done.
    """
    spark = checkpoint.spark
    urls = {query: place if is_topic(place) else Directory(spark, place).url for query, place in places.items()}
    kept = known(checkpoint)
    for query, before in kept.items():
        if query in urls and before != urls[query] and not is_topic(before):
            logs = checkpoint.child_directory(query)
            begun = last_batch(logs, "offsets")
            if begun > last_batch(logs, "commits") and has_files_of(Directory(spark, before), begun):
                raise BatchElsewhereError(
                    f"batch {begun} was cut off and has files in {before}; in {places[query]} its messages would come "
                    f"again\ngive {options[query]} {before} once more, until a batch is done, or move its files"
                )
    if kept != urls:
        checkpoint.make()
        checkpoint.delete(OUTPUTS)
        checkpoint.write(OUTPUTS, json.dumps(urls))


def known(checkpoint: Directory) -> dict[str, str]:
    """What was written down; nothing where it was not, or cannot be read: then there is nothing to compare with."""
    if not checkpoint.exists(OUTPUTS):
        return {}
    try:
        found = json.loads(checkpoint.read(OUTPUTS))
    except ValueError:
        return {}
    return {str(query): str(url) for query, url in found.items()} if isinstance(found, dict) else {}


def has_files_of(place: Directory, batch: int) -> bool:
    """Whether files of a batch have their names there."""
    return place.exists() and any(name.startswith(f"{batch:09d}-") for name in place.changed_ms())
