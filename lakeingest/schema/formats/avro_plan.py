"""The schema of what Spark reads of an Avro payload that has parts which no typed column can hold; see `avro_copy`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from lakeingest.schema import model
from lakeingest.schema.formats import avro, avro_copy
from lakeingest.schema.model import Schema

TEXT = "json"
"""The field of a record that stands for a branch which becomes text."""


def copied(text: str, references: Sequence[str], columns: Schema) -> tuple[str, avro_copy.Plan] | None:
    """The schema under the names of the columns, with text in place of each part that becomes JSON text, and how
    payloads are brought to it; None where the schema can stay as it is.

    Args:
        columns: the schema under the names of the columns.

    Raises:
        SchemaError: see `read`.
    """
    tree, types = avro.parsed(text, references)
    copy, plan = _Copied(types).part(tree, columns)
    if plan is None and columns == avro.AvroSchemaReader(types).part(tree, "", ()):
        return None
    return json.dumps(copy), plan


class _Copied:
    """Turns parsed trees into those of the copies. A named type may have another copy in each place."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        self._types = types
        self._names = count()

    def part(self, tree: Any, schema: Schema) -> tuple[Any, avro_copy.Plan]:
        """The copy's tree, and the plan; None for what stays as it is."""
        if schema.name == model.JSON:
            return ["null", "string"], avro_copy.JSON
        if isinstance(tree, list):
            return self._union(tree, schema)
        if isinstance(tree, str) and tree in self._types:
            return self.part(self._types[tree], schema)
        return (tree, None) if isinstance(tree, str) else self._complex(tree, schema)

    def _complex(self, tree: Mapping[str, Any], schema: Schema) -> tuple[Any, avro_copy.Plan]:
        match tree["type"]:
            case "record" | "error":
                parts = [
                    self.part(f["type"], part.schema) for f, part in zip(tree["fields"], schema.fields, strict=True)
                ]
                fields = [
                    {"name": column.name, "type": part} for column, (part, _) in zip(schema.fields, parts, strict=True)
                ]
                copy = {"type": "record", "name": self._name(tree), "fields": fields}
                return copy, _plan("record", [plan for _, plan in parts])
            case "array" | "map" as kind:
                assert schema.value is not None
                word = "items" if kind == "array" else "values"
                part, plan = self.part(tree[word], schema.value)
                return {"type": kind, word: part}, _plan(kind, [plan])
            case "enum" | "fixed":
                copy = {word: value for word, value in tree.items() if not word.startswith("__") and word != "aliases"}
                return {**copy, "name": self._name(tree)}, None
        return tree, None

    def _union(self, branches: Sequence[Any], schema: Schema) -> tuple[Any, avro_copy.Plan]:
        non_null = [branch for branch in branches if branch != "null"]
        if len(non_null) > 1 and schema.name != avro.UNION:
            return list(branches), None
        members = iter([field.schema for field in schema.fields] if schema.name == avro.UNION else [schema])
        parts = [("null", None) if b == "null" else self._branch(b, next(members)) for b in branches]
        return [part for part, _ in parts], _plan("union", [plan for _, plan in parts])

    def _branch(self, branch: Any, schema: Schema) -> tuple[Any, avro_copy.Plan]:
        """A branch that becomes text is a record of it, so that its member has the branch's name."""
        part, plan = self.part(branch, schema)
        if plan != avro_copy.JSON:
            return part, plan
        tree = self._types.get(branch, branch) if isinstance(branch, str) else branch
        text = {"name": TEXT, "type": part}
        return {"type": "record", "name": self._name(tree), "fields": [text]}, plan

    def _name(self, tree: Mapping[str, Any]) -> str:
        return f"copy{next(self._names)}.{tree['name'].rpartition('.')[2]}"


def _plan(kind: str, parts: list[avro_copy.Plan]) -> avro_copy.Plan:
    return (kind, tuple(parts)) if any(parts) else None
