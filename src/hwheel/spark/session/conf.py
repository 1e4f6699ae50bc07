"""The configuration of a session: its state store, checkpoint files, transfers to Python, and input files."""

from pyspark.sql import SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TRANSFER_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
BATCHES_WITHOUT_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
FILES_BY_A_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"
INDEX_DIRECTORY = "spark.hwheel.indexDirectory"  # of the lookup index that a query of `hwheel deliver` writes
BY_FILE_SYSTEM = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def set_up_state_store(spark: SparkSession) -> None:
    """Choose RocksDB as the state store, unless a state store is configured.

    Raises:
        ValueError: Another state store is configured, or batches without input are disabled.
    """
    provider = chosen(spark, PROVIDER)
    if provider is None:
        spark.conf.set(PROVIDER, ROCKSDB)
    elif "RocksDB" not in provider:
        raise ValueError(f"{PROVIDER} must be {ROCKSDB}, not {provider}: transformWithState needs it")
    if (chosen(spark, BATCHES_WITHOUT_DATA) or "true").lower() != "true":
        raise ValueError(f"{BATCHES_WITHOUT_DATA} must be true: batches without input deliver the due messages")
    set_by_default(spark, CHANGELOG, "true")


def set_up_transfer(spark: SparkSession) -> None:
    """Limit the bytes of the batches that go to Python workers, if no limit is configured.

    Each core has several batches at a time, in off-heap memory that is as large as the heap.
    """
    set_by_default(spark, TRANSFER_BYTES, str(16 * 1024 * 1024))


def set_up_local_checkpoint(spark: SparkSession) -> None:
    """Write a local checkpoint through Hadoop's FileSystem, if nothing else is configured.

    Spark's default is FileContext, which on a local disk starts a process, readlink, for each path. Both write a
    temporary file and rename it atomically. Only a rename of FileContext fails if another job has just written the same
    file, but only_job() refuses a second job on a local checkpoint.
    """
    set_by_default(spark, FILE_MANAGER, BY_FILE_SYSTEM)


def set_up_local_input(spark: SparkSession) -> None:
    """Let the driver look up the sizes of local input files, if nothing else is configured.

    For a batch of more than 32 files, Spark starts a job with a task for each file. That suits object stores, but takes
    a hundred times as long on a local disk.
    """
    set_by_default(spark, FILES_BY_A_JOB, str(2**31 - 1))


def set_by_default(spark: SparkSession, name: str, value: str) -> None:
    """Set an option that is not configured."""
    if chosen(spark, name) is None:
        spark.conf.set(name, value)


def chosen(spark: SparkSession, name: str) -> str | None:
    """Return a configured option, or None for Spark's default."""
    return spark.conf.getAll.get(name)


def state_partitions(spark: SparkSession) -> int:
    """Return the number of state partitions of a new query."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
