"""One log of several schemas, cut into batches in many ways: what a table would hold, without servers and without a
table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.oracle.decoding import KAFKA, NOW

from lakeingest.config import PipelineConfig
from lakeingest.delta import quarantine
from lakeingest.ingest.batch_plan import plan_batch
from lakeingest.ingest.evolution import Evolution
from lakeingest.kafka.registry import RegisteredSchema
from lakeingest.schema.ledger import SchemaLedger


@dataclass(frozen=True)
class Versions:
    """A registry of one subject: id n is version n."""

    type: str
    texts: Sequence[str]

    def writer(self, id: int) -> RegisteredSchema | None:
        if not 1 <= id <= len(self.texts):
            return None
        text = self.texts[id - 1]
        return RegisteredSchema(id, self.type, text, (), hashlib.sha256(text.encode()).hexdigest())

    def version(self, subject: str, writer: RegisteredSchema) -> int | None:
        return int(writer.id)

    def latest(self, subject: str) -> tuple[RegisteredSchema, int] | None:
        return None

    def topic_subject(self, topic: str, side: str) -> str:
        return f"{topic}-{side}"


@dataclass
class Table:
    """What came of the batches: rows and refusals by offset, the columns, and the ledger."""

    rows: dict[int, Any] = field(default_factory=dict)
    refused: dict[int, tuple[str, str]] = field(default_factory=dict)
    columns: Any = None
    ledger: SchemaLedger = field(default_factory=SchemaLedger)

    @property
    def types(self) -> dict[str, str]:
        return {f.name: f.dataType.simpleString() for f in self.columns}

    @property
    def verdicts(self) -> list[tuple[Any, ...]]:
        return [(e.version, e.verdict, e.action, e.changes, e.rescued) for e in self.ledger.entries]


def pipeline(format: str, mode: str, **parts: Any) -> PipelineConfig:
    schema = {"compatibility": mode, **parts.pop("schema", {})}
    given = {"decode": {"value": {"format": format}}, "schema": schema, **parts}
    whole = {"name": "flights", "source": {"topics": ["flights"]}, "table": {"path": "s3a://lake/flights"}, **given}
    if format != "json":
        whole["registry"] = {"url": "http://registry"}
    return PipelineConfig.model_validate(whole)


def ingested(
    spark: SparkSession, config: PipelineConfig, registry: Any, records: Sequence[bytes], cuts: Sequence[int]
) -> Table:
    """The records of one partition in batches that begin at these offsets; each batch is a run of its own."""
    table, ends = Table(), [*cuts[1:], len(records)]
    for start, end in zip(cuts, ends, strict=True):
        batch(spark, config, registry, table, dict(list(enumerate(records))[start:end]))
    return table


def replayed(
    spark: SparkSession, config: PipelineConfig, registry: Any, table: Table, records: Sequence[bytes]
) -> None:
    """What was refused is decided again, and the table does not follow."""
    if table.refused:
        batch(spark, config, registry, table, {n: records[n] for n in table.refused}, follows=False)


def batch(
    spark: SparkSession,
    config: PipelineConfig,
    registry: Any,
    table: Table,
    records: dict[int, bytes],
    *,
    follows: bool = True,
) -> None:
    """One batch of records by their offsets; what passes is in the table, and not refused any more."""
    evolution = Evolution(config, table.ledger, lambda: registry, table.columns, follows=follows)
    # The times run backwards: within a partition they decide nothing.
    rows = [(n, None, bytearray(value), "flights", 0, NOW.replace(year=2050 - n), None) for n, value in records.items()]
    kafka = spark.createDataFrame(rows, KAFKA).coalesce(1)
    evolution.discover(kafka, 1, table.columns)
    plan = plan_batch(config, evolution.shape(table.columns, strict=False), None)
    decided = plan.decide(kafka).cache()
    accepted = plan.accepted(decided).drop("_topic", "_partition", "_timestamp", "_key", "_headers")
    taken = {row["_offset"]: _plain(row.asDict(recursive=True)) for row in accepted.collect()}
    table.rows |= taken
    refused = quarantine.rows(decided.where(F.col("_refused")), plan.refusals, "flights", 1, NOW)
    table.refused |= {row[0]: tuple(row[1:]) for row in refused.select("_offset", "reason", "message").collect()}
    table.refused = {n: why for n, why in table.refused.items() if n not in table.rows}
    decided.unpersist()
    if follows:
        table.columns = accepted.drop("_offset", "_schema_id", "_rescued").schema
        table.ledger = SchemaLedger.from_json(json.loads(json.dumps(evolution.ledger.to_json())))


def _plain(value: Any) -> Any:
    """Without what is null: a column that is not there yet is null, too."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value
