"""Spark sessions: their configuration, the Kafka connector, and the session of the command with its Java."""
