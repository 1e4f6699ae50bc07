"""Exactly-once writes to a Delta table by the recipe of docs/spark.md.

This file is also the program that the test runs, because Delta needs its own Spark session:

    python tests/kafka/test_delta.py JARS FOLDER

The first run of each query fails after it has written a batch and before the batch is committed; the second run repeats
the batch. The program prints the number of copies of each message, with the recipe and without its two options. The
test is in this folder because it needs the same pyspark version.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from hwheel.spark import hold_until_due

MESSAGES = 50


class Lost(Exception):
    """Raised where the driver would be killed."""


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
    """Return {id: number of copies in the table} after a failed run and a second one."""
    table = str(folder / name)
    committed = folder / f"state-{name}" / "commits" / "0"
    losing = [True]

    def write(batch, batch_id):
        once = {"txnAppId": name, "txnVersion": batch_id} if options else {}
        rows = batch.persist()
        rows.count()  # Delta reads nothing of a batch that it has, but Spark must compute the state of all rows
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


def test_repeated_batch_is_in_the_table_once(delta, tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", __file__, delta, tmp_path],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    once, again = json.loads(done.stdout.splitlines()[-1])
    names = {f"m{i}" for i in range(50)}
    assert once == dict.fromkeys(names, 1)
    assert {*again} == names and set(again.values()) == {2}, "without the options the batch is duplicated"


if __name__ == "__main__":
    main()
