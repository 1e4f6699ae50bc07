"""The Spark session: its Java, its state store, its Kafka connector, and a session of the command's own."""
