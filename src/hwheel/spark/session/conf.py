"""What a session must be like: its state store, how checkpoints are written, and how input files are looked up."""

from pyspark.sql import SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TRANSFER_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
BATCHES_WITHOUT_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
FILES_BY_A_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"
BY_FILE_SYSTEM = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def set_up_state_store(spark: SparkSession) -> None:
    """Chooses RocksDB where nothing was chosen; ValueError where something else was, or where there would be no batch
    while nothing comes in.
    """
    provider = chosen(spark, PROVIDER)
    if provider is None:
        spark.conf.set(PROVIDER, ROCKSDB)
    elif "RocksDB" not in provider:
        raise ValueError(f"{PROVIDER} must be {ROCKSDB}, not {provider}: transformWithState needs it")
    if (chosen(spark, BATCHES_WITHOUT_DATA) or "true").lower() != "true":
        raise ValueError(f"{BATCHES_WITHOUT_DATA} must be true: batches without input are what releases messages")
    set_by_default(spark, CHANGELOG, "true")


def set_up_transfer(spark: SparkSession) -> None:
    """Bounds the batches in which rows go to Python workers by bytes as well, where nothing was chosen: each core has
    several of them at a time, outside of the heap, in a memory that is as large as the heap.
    """
    set_by_default(spark, TRANSFER_BYTES, str(16 * 1024 * 1024))


def set_up_local_checkpoint(spark: SparkSession) -> None:
    """For a checkpoint in a local directory: its files go through Hadoop's FileSystem, where nothing was chosen.

    Spark's default goes through FileContext, which on a local disk starts a process, readlink, for each path that it
    looks at. What both do is the same, a temporary file and a rename, which is atomic there. What FileContext has
    beyond that is a rename that fails if somebody else has just written the same file: that is for two jobs on one
    checkpoint, which one_job.py refuses.
    """
    set_by_default(spark, FILE_MANAGER, BY_FILE_SYSTEM)


def set_up_local_input(spark: SparkSession) -> None:
    """For input in a local directory: how large its files are, the driver asks by itself, where nothing was chosen.

    Where a batch has more than 32 files, Spark has a job ask, with a task for each, which is for object stores, and
    takes a hundred times as long as the disk does.
    """
    set_by_default(spark, FILES_BY_A_JOB, str(2**31 - 1))


def set_by_default(spark: SparkSession, name: str, value: str) -> None:
    """Sets what nobody has chosen."""
    if chosen(spark, name) is None:
        spark.conf.set(name, value)


def chosen(spark: SparkSession, name: str) -> str | None:
    """A setting that was made, or None where Spark's default holds."""
    return spark.conf.getAll.get(name)


def state_partitions(spark: SparkSession) -> int:
    """How many partitions the state of a new query has."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
