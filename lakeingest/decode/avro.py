"""Avro in the JVM. Spark's `from_avro` reads a payload, and cannot tell whether that was all of it.

Where a session has lakeingest's jar, a function of its catalog reads it in one step, to the last byte, into what
`from_avro` would give (`AvroFunctions.java`). Elsewhere the payload is read as the field `value` of an envelope whose
last field is a seal: sixteen random bytes, put behind the payload. A payload that was cut short, or has bytes too many,
or was written with another schema, does not end where the seal begins. Types of other schemas that the schema refers to
are declared by fields before it, each an optional one whose value is null: one zero byte.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeingest import jvm
from lakeingest.decode import project

_SEAL = os.urandom(16)
_OPTIONS = {"mode": "PERMISSIVE", "enableStableIdentifiersForUnionType": "true"}


@dataclass(frozen=True)
class Reader:
    """Reads what was written with one schema; `references` are the texts that it refers to, dependencies first."""

    text: str
    references: Sequence[str] = ()

    def parse(self, payload: Column) -> Column:
        """BINARY → STRUCT<value: …>, null where it cannot be read; by `from_avro` STRUCT<value: …, seal: BINARY>."""
        from pyspark.sql.avro.functions import from_avro

        if jvm.offered("avro"):
            return F.call_function(jvm.function("avro", self._envelope()), payload)
        head, tail = F.lit(bytearray(len(self.references))), F.lit(bytearray(_SEAL))
        sealed = F.concat(head, payload, tail) if self.references else F.concat(payload, tail)
        seal = {"name": "seal", "type": {"type": "fixed", "name": "LakeingestSeal", "size": len(_SEAL)}}
        return from_avro(sealed, self._envelope(seal), _OPTIONS)

    def broken(self, parsed: Column) -> Column:
        """BOOLEAN, never null."""
        if jvm.offered("avro"):
            return parsed.isNull()
        return ~F.coalesce(parsed["seal"] == F.lit(bytearray(_SEAL)), F.lit(False))

    def value(self, parsed: Column) -> Column:
        return parsed["value"]

    def why(self, payload: Column) -> Column | None:
        return None

    def rescued(self, parsed: Column, dropped: tuple[str, ...]) -> Column | None:
        return project.rescued(self.value(parsed), dropped)

    def _envelope(self, *behind: object) -> str:
        """A schema: for each reference a field that declares its types, then the value, then the fields behind it."""
        named = [{"name": f"declared{i}", "type": ["null", json.loads(text)]} for i, text in enumerate(self.references)]
        fields = [*named, {"name": "value", "type": json.loads(self.text)}, *behind]
        return json.dumps({"type": "record", "name": "LakeingestEnvelope", "fields": fields})
