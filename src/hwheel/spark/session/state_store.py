"""What a session must be like: its state store."""

from pyspark.sql import SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
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


def chosen(spark: SparkSession, name: str) -> str | None:
    """A setting that was made, or None where Spark's default holds."""
    return spark.conf.getAll.get(name)


def state_partitions(spark: SparkSession) -> int:
    """How many partitions the state of a new query has."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
