"""Kafka: what the topics hold, the offsets of the next batch, the records, and the schema registry."""
