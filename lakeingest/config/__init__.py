"""The pipeline file as frozen values. No Spark, no network.

`file.read` turns a YAML file into a `Pipeline`; `lakeingest describe` prints the options.
values.py holds the kinds of values, parts.py the parts, rules.py what the parts must agree on.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from lakeingest.config import rules
from lakeingest.config.parts import (
    BytesFormat,
    Decode,
    FieldPartition,
    Gate,
    JsonKey,
    JsonValue,
    KafkaPartition,
    KeyFormat,
    Part,
    Partition,
    Quarantine,
    Schema,
    Source,
    Storage,
    StringFormat,
    Table,
    TimePartition,
    Trigger,
    ValueFormat,
)
from lakeingest.config.values import Duration, FieldPath, Name, Secret, Timezone
from lakeingest.schema import ddl

__all__ = [
    "BytesFormat",
    "Decode",
    "Duration",
    "FieldPartition",
    "FieldPath",
    "Gate",
    "JsonKey",
    "JsonValue",
    "KafkaPartition",
    "KeyFormat",
    "Name",
    "Part",
    "Partition",
    "Pipeline",
    "Quarantine",
    "Schema",
    "Secret",
    "Source",
    "Storage",
    "StringFormat",
    "Table",
    "TimePartition",
    "Timezone",
    "Trigger",
    "ValueFormat",
]


def _beside(data: dict[str, Any]) -> Quarantine:
    return Quarantine(path=data["table"].path.rstrip("/") + "_quarantine")


class Pipeline(Part):
    """A pipeline file: Kafka topics into one Delta table, refused records into quarantine."""

    name: Name = Field(
        description="The pipeline's name. It is what commits are known by: keep it for the life of the table.",
        examples=["flights"],
    )
    source: Source = Field(description="Which Kafka topics are read, and from where.")
    table: Table = Field(description="The Delta table that accepted records are written to.")
    decode: Decode = Field(default_factory=Decode, description="How the bytes of a record become columns.")
    schema_: Schema = Field(default_factory=Schema, alias="schema", description="The columns of the value.")
    partition: tuple[Partition, ...] = Field(
        (), description="How the table is cut into partitions, the outermost first. Default: not at all."
    )
    quarantine: Quarantine = Field(
        default_factory=_beside,
        description="The Delta table for refused records. Default: beside the table, at table.path with _quarantine.",
    )
    gate: Gate | None = Field(None, description="The Great Expectations suite that records must meet. Default: none.")
    trigger: Trigger = Field(default_factory=Trigger, description="When a micro-batch is cut.")
    storage: Storage = Field(default_factory=Storage, description="How S3 is reached.")

    @property
    def columns(self) -> tuple[ddl.Column, ...]:
        """The columns that a record's value becomes: the declared ones, or `value` for text and bytes."""
        return rules.columns(self.decode, self.schema_)

    @model_validator(mode="after")
    def _agree(self) -> Pipeline:
        partition = dict(enumerate(self.partition))
        found = tuple(rules.mistakes(self.decode, self.schema_, partition, self.table, self.quarantine))
        if found:
            summary = "; ".join(f"{'.'.join(map(str, m.path))}: {m.text}" for m in found)
            raise PydanticCustomError("disagree", "{summary}", {"summary": summary, "mistakes": found})
        return self
