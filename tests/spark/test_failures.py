"""Errors that end a query are reported in two lines: the cause, and advice."""

import pytest
from pyspark.errors import PySparkException

from hwheel.cli.common import CommandError, spark_errors
from hwheel.spark.deliver.failures import GO_ON, MAX_LINE_LENGTH, failure_of
from hwheel.spark.deliver.sink import DirectoryTakenError


@pytest.mark.parametrize(
    ("error", "cause", "advice"),
    [
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", "another job runs", "stop one"),
        ("java.io.IOException: No space left on device", "a disk is full", "free some space"),
        ("Job aborted ... java.lang.OutOfMemoryError: Java heap space", "Java ran out of memory", "driver.memory=4g"),
        ("[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data", "the topic no longer", "--skip-lost-offsets"),
        ("org.apache.kafka.common.errors.RecordTooLargeException: 2000000", "a message is larger", "max.request.size"),
        ("Failed to read log file s/offsets/4. Incomplete log file", "is incomplete or cannot be read", "a copy"),
        ("[STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY] The ...", "the checkpoint is incomplete", "from a copy"),
        ("[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] The", "the checkpoint is incomplete", "from a copy"),
        ("[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY]", "the checkpoint is incomplete", "from a copy"),
        (
            "com.fasterxml.jackson.databind.exc.MismatchedInputException: No content",
            "the checkpoint is incomplete",
            "a copy",
        ),
        ("[STDS_INVALID_OPTION_VALUE.WITH_MESSAGE] Invalid", "without hold_until_due", "of `hwheel deliver`"),
        ("[STDS_COMMITTED_BATCH_UNAVAILABLE] No committed", "has not completed a batch yet", "try again"),
        ("Python worker exited unexpectedly (crashed). Consider", "was killed or ran out of memory", "--files-a-batch"),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error", "the checkpoint is incomplete", "from a copy"),
        ("An error occurred while calling o550.isActive", "Java, on which Spark runs, has ended", GO_ON),
        ("Cannot call methods on a stopped SparkContext.", "Spark was stopped, for example by a signal", GO_ON),
        (
            "EOFException occurred while reading the port number from pyspark.daemon's stdout.",
            "was killed",
            "nothing is",
        ),
        ("An error occurred while calling o1.f.\n: java.lang.Exception: that", "An error occurred", GO_ON),
        ("something else", "something else", GO_ON),
        ("x" * 5000, "x" * MAX_LINE_LENGTH + "...", GO_ON),
        ("what\nit is\n\n== a plan ==\n" + "plan\n" * 99, "what it is", GO_ON),
        (
            'Traceback (most recent call last):\n  File "f", line 1\nValueError: made with tick=1000ms\n',
            "made with",
            GO_ON,
        ),
    ],
)
def test_cause_and_advice(error, cause, advice):
    failure = failure_of(PySparkException(error))
    assert cause in failure.what and advice in failure.advice and error.strip() in failure.details
    assert str(failure).count("\n") == 1 and failure.file is None


def test_errors_of_hwheel_have_their_own_advice():
    assert str(failure_of(DirectoryTakenError("taken\nuse another"))) == "taken\nuse another"
    assert failure_of(DirectoryTakenError("taken")).advice == GO_ON


def test_java_errors(spark, tmp_path):
    (tmp_path / "broken.parquet").write_text("PAR1 is not enough")
    with pytest.raises(CommandError) as caught, spark_errors():
        spark.read.schema("id string").parquet(str(tmp_path)).collect()
    assert "broken.parquet cannot be read: file:" in str(caught.value) and "not a Parquet file" in str(caught.value)
    assert str(caught.value).count("\n") == 1 and "Traceback" in caught.value.details
    (tmp_path / "in").mkdir()
    frame = spark.readStream.schema("id bigint").parquet(str(tmp_path / "in")).selectExpr("1 div (id - id) as id")
    spark.range(3).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "state")).start()
    with pytest.raises(PySparkException):
        query.awaitTermination()
    failure = failure_of(query.exception())
    assert "Division by zero" in failure.what and "\n" not in failure.what and "SQLSTATE" not in failure.what


def test_error_without_a_text_is_named():
    """A worker that loses its connection raises one, and Spark appends a line."""
    frame = '  File "/pyspark/{}.py", line 4, in read_int\n    raise EOFError\nEOFError\n SQLSTATE: 38000'
    head = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
    assert failure_of(RuntimeError(head + frame.format("serializers"))).what == "EOFError"
    failure = failure_of(RuntimeError(head + frame.format("sql/streaming/stateful_processor_api_client")))
    assert failure.what.startswith("Spark could not write or read the state: the disk")
    assert failure.advice == "free some space and start again: nothing is lost"
