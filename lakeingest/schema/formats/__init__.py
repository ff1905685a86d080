"""Avro, Protobuf and JSON Schema: each format's schemas as `model.Schema`, and the headers of a registry."""
