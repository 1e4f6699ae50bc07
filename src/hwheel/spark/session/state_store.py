"""What a session must be like: its state store."""

from pyspark.sql import SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TRANSFER_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def set_up_state_store(spark: SparkSession) -> None:
    """Chooses RocksDB where nothing was chosen; ValueError where something else was."""
    provider = chosen(spark, PROVIDER)
    if provider is None:
        spark.conf.set(PROVIDER, ROCKSDB)
    elif "RocksDB" not in provider:
        raise ValueError(f"{PROVIDER} must be {ROCKSDB}, not {provider}: transformWithState needs it")
    if chosen(spark, CHANGELOG) is None:
        spark.conf.set(CHANGELOG, "true")


def set_up_transfer(spark: SparkSession) -> None:
    """Bounds the batches in which rows go to Python workers by bytes as well, where nothing was chosen: each core has
    several of them at a time, outside of the heap, in a memory that is as large as the heap.
    """
    if chosen(spark, TRANSFER_BYTES) is None:
        spark.conf.set(TRANSFER_BYTES, str(16 * 1024 * 1024))


def chosen(spark: SparkSession, name: str) -> str | None:
    """A setting that was made, or None where Spark's default holds."""
    return spark.conf.getAll.get(name)


def state_partitions(spark: SparkSession) -> int:
    """How many partitions the state of a new query has."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
