"""One shard: a timing wheel whose buckets lie in a state store. Nothing here calls Spark."""
