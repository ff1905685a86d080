"""A pipeline over records that bring their schemas, and what its tables hold."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from support.pipelines import World, values_of
from support.records import registered
from support.records.registered import Avro

from lakeingest.schema.ledger import SchemaLedger


class SchemaWorld(World):
    """A pipeline over records that bring their schemas; several may read one topic."""

    def values(self, **changes: Any) -> dict[str, Any]:
        # The registry is named, so that no running stack of a developer's is asked.
        given = {"registry": {"url": self.stack.registry}, **self.changes, **changes}
        if given.get("decode", {}).get("value", {"format": "json"})["format"] != "json":
            given["schema"] = {"columns": None, **given.get("schema", {})}
        return values_of(self.stack, self.name, **given)

    def avro(self, tree: Any, side: str = "value") -> Avro:
        return registered.avro(self.stack, f"{self.name}-{side}", tree)

    @property
    def table(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path()).orderBy("_topic", "_partition", "_offset")

    def columns(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.table.selectExpr(*names).collect()]

    @property
    def value_types(self) -> dict[str, str]:
        return {f.name: f.dataType.simpleString() for f in self.table.schema if not f.name.startswith("_")}

    @property
    def written(self) -> list[int]:
        """The number of files of each commit that wrote data."""
        history = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.path()}`").where("operation = 'WRITE'")
        return [int(row["operationMetrics"]["numFiles"]) for row in history.collect()]

    @property
    def reasons(self) -> dict[tuple[int, int], tuple[str, str, str]]:
        """(partition, offset) → stage, reason, message."""
        return {(r["_partition"], r["_offset"]): (r["stage"], r["reason"], r["message"]) for r in self.refused}

    @property
    def ledger(self) -> SchemaLedger:
        return self.ingestion().tables.commit_logs(back=None)[0].schemas
