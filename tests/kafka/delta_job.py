"""Messages that are held, and then written to a Delta table, by the recipe of docs/spark.md.

    python tests/kafka/delta_job.py JARS FOLDER

The first run of each query ends behind the write of a batch and before Spark knows that it is over; the second runs
that batch again. Prints how often each message is in the table, as JSON: with the recipe, and without its two options.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from hwheel.spark import hold_until_due

MESSAGES = 50


class Lost(Exception):
    """Where the driver would have been killed."""


def session(jars):
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    for name, value in {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss8m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def delivered(spark, folder, name, options):
    """{id: how often it is in the table} after a run that was lost and one that was not."""
    table = str(folder / name)
    committed = folder / f"state-{name}" / "commits" / "0"
    losing = [True]

    def write(batch, batch_id):
        once = {"txnAppId": name, "txnVersion": batch_id} if options else {}
        rows = batch.persist()
        rows.count()  # where Delta has the batch already it reads nothing, and Spark wants the state of all of it
        rows.write.format("delta").mode("append").options(**once).save(table)
        rows.unpersist()
        if losing.pop() if losing else False:
            raise Lost

    schema = "id string, key string, due timestamp"
    for attempt in range(2):
        held = (
            spark.readStream.schema(schema)
            .json(str(folder / "in"))
            .transform(hold_until_due, id="id", key="key", due="due")
        )
        query = (
            held.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(folder / f"state-{name}"))
            .trigger(processingTime="250 milliseconds")
            .start()
        )
        try:
            give_up = time.monotonic() + 120
            while query.isActive and time.monotonic() < give_up and not committed.exists():
                time.sleep(0.2)
            query.stop()
            query.awaitTermination(60)
        except StreamingQueryException as error:
            if attempt or "Lost" not in str(error):
                raise
    rows = spark.read.format("delta").load(table).groupBy("id").count().collect()
    return {row["id"]: row["count"] for row in rows}


def main():
    folder = Path(sys.argv[2])
    spark = session(sys.argv[1])
    spark.sparkContext.setLogLevel("OFF")
    (folder / "in").mkdir()
    due = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
    lines = [json.dumps({"id": f"m{i}", "key": "k", "due": due}) for i in range(MESSAGES)]
    (folder / "in" / "messages.json").write_text("\n".join(lines))
    print(json.dumps([delivered(spark, folder, name, name == "once") for name in ("once", "again")]))
    spark.stop()


if __name__ == "__main__":
    main()
