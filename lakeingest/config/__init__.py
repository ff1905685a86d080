"""The pipeline file as frozen values. No Spark, no network.

`file.read` turns a YAML file into a `PipelineConfig` (pipeline.py); `lakeingest describe` prints the options. values.py
holds the kinds of values; source.py, formats.py and parts.py the parts; consistency.py and table_places.py what they
must agree on.
"""

from __future__ import annotations

from lakeingest.config.base import Part
from lakeingest.config.envelope import DebeziumEnvelope, Envelope, FieldsEnvelope
from lakeingest.config.formats import (
    AvroFormat,
    BytesFormat,
    ConnectJsonFormat,
    JsonKey,
    JsonSchemaFormat,
    JsonValue,
    KeyFormat,
    ProtobufFormat,
    Strategy,
    StringFormat,
    ValueFormat,
    brings_schema,
    uses_registry,
)
from lakeingest.config.parts import (
    Compatibility,
    Decode,
    FieldPartition,
    Gate,
    KafkaPartition,
    Partition,
    Quarantine,
    Retry,
    Schema,
    Table,
    TimePartition,
    Trigger,
)
from lakeingest.config.pipeline import PipelineConfig
from lakeingest.config.source import Registry, Source
from lakeingest.config.storage import Encryption, Role, Storage
from lakeingest.config.values import Duration, FieldPath, Name, SchemaFile, Secret, Timezone

__all__ = [
    "AvroFormat",
    "BytesFormat",
    "Compatibility",
    "ConnectJsonFormat",
    "DebeziumEnvelope",
    "Decode",
    "Duration",
    "Encryption",
    "Envelope",
    "FieldPartition",
    "FieldPath",
    "FieldsEnvelope",
    "Gate",
    "JsonKey",
    "JsonSchemaFormat",
    "JsonValue",
    "KafkaPartition",
    "KeyFormat",
    "Name",
    "Part",
    "Partition",
    "PipelineConfig",
    "ProtobufFormat",
    "Quarantine",
    "Registry",
    "Retry",
    "Role",
    "Schema",
    "SchemaFile",
    "Secret",
    "Source",
    "Storage",
    "Strategy",
    "StringFormat",
    "Table",
    "TimePartition",
    "Timezone",
    "Trigger",
    "ValueFormat",
    "brings_schema",
    "uses_registry",
]
