"""Avro in the JVM, by Spark's `from_avro`, so that what it cannot tell is told all the same.

The payload is read as the field `value` of an envelope whose last field is a seal: sixteen random bytes, put behind the
payload. A payload that was cut short, or has bytes too many, or was written with another schema, does not end where the
seal begins. Types of other schemas that the schema refers to are declared by fields before it, each an optional one
whose value is null: one zero byte.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeingest.decode import project

_SEAL = os.urandom(16)
_OPTIONS = {"mode": "PERMISSIVE", "enableStableIdentifiersForUnionType": "true"}


@dataclass(frozen=True)
class Reader:
    """Reads what was written with one schema; `references` are the texts that it refers to, dependencies first."""

    text: str
    references: Sequence[str] = ()

    def parse(self, payload: Column) -> Column:
        """BINARY → STRUCT<value: …, seal: BINARY>, null where it cannot be read."""
        from pyspark.sql.avro.functions import from_avro

        head, tail = F.lit(bytearray(len(self.references))), F.lit(bytearray(_SEAL))
        sealed = F.concat(head, payload, tail) if self.references else F.concat(payload, tail)
        return from_avro(sealed, json.dumps(self._envelope()), _OPTIONS)

    def broken(self, parsed: Column) -> Column:
        """BOOLEAN, never null."""
        return ~F.coalesce(parsed["seal"] == F.lit(bytearray(_SEAL)), F.lit(False))

    def value(self, parsed: Column) -> Column:
        return parsed["value"]

    def why(self, payload: Column) -> Column | None:
        return None

    def rescued(self, parsed: Column, dropped: tuple[str, ...]) -> Column | None:
        return project.rescued(self.value(parsed), dropped)

    def _envelope(self) -> object:
        declared = [
            {"name": f"declared{i}", "type": ["null", json.loads(text)]} for i, text in enumerate(self.references)
        ]
        seal = {"type": "fixed", "name": "LakeingestSeal", "size": len(_SEAL)}
        fields = [*declared, {"name": "value", "type": json.loads(self.text)}, {"name": "seal", "type": seal}]
        return {"type": "record", "name": "LakeingestEnvelope", "fields": fields}
