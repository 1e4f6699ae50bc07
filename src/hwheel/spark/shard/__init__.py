"""One shard of the query: a timing wheel whose buckets are in a state store."""
