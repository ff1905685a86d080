"""A pipeline's contract as a document of the Open Data Contract Standard (ODCS, version 3). Begin at `contract`.

What the standard has no word for stands in customProperties, so that a document says all that the pipeline file says of
the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from lakeingest import gate
from lakeingest.config import location, partition_format, periods
from lakeingest.config.durations import duration_text
from lakeingest.config.parts import FieldPartition, Partition, TimePartition
from lakeingest.config.pipeline import PipelineConfig
from lakeingest.delta.reader.log import OfflineLog, Unreadable
from lakeingest.errors import LakeingestError, UsageError
from lakeingest.gate.suite import Rule
from lakeingest.ingest import endpoints
from lakeingest.operations.results.contract_document import ContractDocument
from lakeingest.record import OFFSET, PARTITION, TIMESTAMP, TOPIC
from lakeingest.schema import ddl

API = "v3.1.0"
ENGINE = "great-expectations"
_KEY = (TOPIC, PARTITION, OFFSET)
_LOGICAL = {
    "string": "string",
    "binary": "string",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
    "float": "number",
    "double": "number",
    **dict.fromkeys(("byte", "short", "integer", "long"), "integer"),
}
_PHYSICAL = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}
# Columns that each table has: type and description.
_OWN = {
    TOPIC: ("string", "the record's topic"),
    PARTITION: ("integer", "its Kafka partition"),
    OFFSET: ("long", "its offset: topic, partition and offset are there once"),
    TIMESTAMP: ("timestamp", "its Kafka timestamp"),
}
# Agreements, and the beginning of their descriptions.
_AGREED = {
    "frequency": "how often records are committed",
    "latency": "from a record's Kafka timestamp until it is in the table",
    "retention": "how long rows stay in the table at least",
    "completeness": "behind a period's end its records may still come so long",
}
_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
_PERSON = re.compile(r"(.*\S) <(.+)>")


def contract(config: PipelineConfig) -> ContractDocument:
    """The document with the expectations of the gate, and with the table's columns.

    Raises:
        UsageError: there is no table yet, and the pipeline file declares no columns.
    """
    suite = gate.load(config)
    columns = _columns(config)
    if columns is None and not config.columns:
        raise UsageError(
            f"there is no table of {config.name!r} yet, and its file declares no columns",
            cure="run the pipeline first: its records bring the columns",
        )
    return ContractDocument(config.name, document(config, columns, suite.rules if suite else ()), columns is not None)


def _columns(config: PipelineConfig) -> list[dict[str, Any]] | None:
    """The table's columns as they are; None where it cannot be read without Spark, or is not there."""
    try:
        log = OfflineLog(config.table.identifier, endpoints.storage(config))
        fields: list[dict[str, Any]] = json.loads(log.state.metadata["schemaString"])["fields"]
    except (Unreadable, LakeingestError):
        return None
    return fields


def document(
    config: PipelineConfig, columns: Sequence[Mapping[str, Any]] | None, rules: Sequence[Rule]
) -> dict[str, Any]:
    """The document of a pipeline.

    Args:
        columns: the table's, as Delta's log has them; None while there is no table: then what the file declares.
        rules: the expectations of the gate's suite.
    """
    promised = config.contract
    values: dict[str, Any] = {
        "kind": "DataContract",
        "apiVersion": API,
        "id": config.known_as,
        "name": config.name,
        "version": "1.0.0",
        "status": "active",
        "description": {"purpose": config.comment} if config.comment else None,
        "servers": [_server(config)],
        "schema": [_object(config, columns, rules)],
        "team": {"members": [_member(owner) for owner in promised.owners]} if promised and promised.owners else None,
        "slaProperties": [*_sla(config)],
        "customProperties": [*_custom(config)],
    }
    return {name: value for name, value in values.items() if value}


def _server(config: PipelineConfig) -> dict[str, Any]:
    table = config.table
    base: dict[str, Any] = {"server": "table", "format": "delta"}
    if table.path is None:
        *catalog, schema, _ = str(table.name).split(".")
        return {**base, "type": "custom", "schema": schema, **({"catalog": catalog[0]} if catalog else {})}
    place = location.place(table.path)
    if not place.on_s3:
        return {**base, "type": "local", "path": table.path}
    endpoint = {"endpointUrl": config.storage.endpoint} if config.storage.endpoint else {}
    return {**base, "type": "s3", "location": f"s3://{'/'.join((place.bucket, *place.steps))}", **endpoint}


def _object(
    config: PipelineConfig, columns: Sequence[Mapping[str, Any]] | None, rules: Sequence[Rule]
) -> dict[str, Any]:
    by_column: dict[str, list[dict[str, Any]]] = {}
    of_table: list[dict[str, Any]] = []
    fields = [*columns] if columns is not None else [*_declared(config)]
    names = {column["name"] for column in fields}
    for rule in rules:
        one = len(rule.columns) == 1 and rule.columns[0] in names
        (by_column.setdefault(rule.columns[0], []) if one else of_table).append(_quality(rule))
    parts = [*_partition_columns(config)]
    properties = []
    for column in fields:
        name = column["name"]
        entry = _property(column)
        if name in _KEY:
            entry |= {"primaryKey": True, "primaryKeyPosition": _KEY.index(name) + 1}
        if name in parts:
            entry |= {"partitioned": True, "partitionKeyPosition": parts.index(name) + 1}
        if name in by_column:
            entry["quality"] = by_column[name]
        properties.append(entry)
    identifier = config.table.identifier
    short = location.place(identifier).steps[-1] if location.is_path(identifier) else identifier.rpartition(".")[2]
    table = {"name": short, "physicalName": identifier, "physicalType": "table", "logicalType": "object"}
    if config.comment:
        table["description"] = config.comment
    return {**table, "properties": properties, **({"quality": of_table} if of_table else {})}


def _declared(config: PipelineConfig) -> Iterator[dict[str, Any]]:
    """The columns that a table will have, as far as the file tells."""
    yield from json.loads(ddl.to_json(config.columns))["fields"]
    for name, (kind, comment) in _OWN.items():
        yield {"name": name, "type": kind, "nullable": name == TIMESTAMP, "metadata": {"comment": comment}}
    names = {column.name for column in config.columns}
    for name in _partition_columns(config):
        if name not in names:
            part = next(p for p in config.partition if name in _names(p))
            kind = "string"
            if isinstance(part, TimePartition):
                kind = "date" if partition_format.segments(part)[0].pattern is None else "string"
            elif isinstance(part, FieldPartition):
                column = ddl.find(config.columns, part.field)
                kind = json.loads(ddl.to_json([column]))["fields"][0]["type"] if column else "string"
            else:
                kind = "integer"
            yield {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _partition_columns(config: PipelineConfig) -> Iterator[str]:
    for part in config.partition:
        yield from _names(part)


def _names(part: Partition) -> tuple[str, ...]:
    """The partition columns of a partition."""
    if isinstance(part, TimePartition):
        return tuple(segment.name for segment in partition_format.segments(part))
    return (
        (partition_format.field_name(part),)
        if isinstance(part, FieldPartition)
        else (partition_format.KAFKA_PARTITION,)
    )


def _word(name: str) -> str:
    """A field's name as DDL has it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else ddl.quoted(name)


def _property(field: Mapping[str, Any]) -> dict[str, Any]:
    entry = {"name": field["name"], **_type(field["type"])}
    if not field["nullable"]:
        entry["required"] = True
    if comment := (field.get("metadata") or {}).get("comment"):
        entry["description"] = comment
    return entry


def _type(kind: Any) -> dict[str, Any]:
    physical: dict[str, Any] = {"physicalType": _physical(kind)}
    if isinstance(kind, str):
        # The standard's schema takes a property without a logical type for a map.
        logical = "number" if kind.startswith("decimal") else _LOGICAL.get(kind, "object")
        return {"logicalType": logical, **physical}
    match kind["type"]:
        case "struct":
            return {"logicalType": "object", **physical, "properties": [_property(each) for each in kind["fields"]]}
        case "array":
            return {"logicalType": "array", **physical, "items": _type(kind["elementType"])}
    return {"logicalType": "object", **physical}


def _physical(kind: Any) -> str:
    """A type of Delta's log as DDL."""
    if isinstance(kind, str):
        return _PHYSICAL.get(kind, kind.upper())
    match kind["type"]:
        case "struct":
            inside = ", ".join(f"{_word(f['name'])}: {_physical(f['type'])}" for f in kind["fields"])
            return f"STRUCT<{inside}>"
        case "array":
            return f"ARRAY<{_physical(kind['elementType'])}>"
    return f"MAP<{_physical(kind['keyType'])}, {_physical(kind['valueType'])}>"


def _quality(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "type": "custom",
        "engine": ENGINE,
        "implementation": {"type": rule.type, "kwargs": dict(rule.kwargs)},
        "severity": "warning" if rule.action == "warn" else "error",
    }


def _member(owner: str) -> dict[str, str]:
    match = _PERSON.fullmatch(owner)
    return {"username": match[2], "name": match[1], "role": "owner"} if match else {"username": owner, "role": "owner"}


def _sla(config: PipelineConfig) -> Iterator[dict[str, Any]]:
    table = _object_name(config)
    promised = config.contract
    yield _agreed("frequency", config.trigger.every, table)
    if promised is None:
        return
    if promised.freshness is not None:
        yield _agreed("latency", promised.freshness, f"{table}.{TIMESTAMP}")
    if promised.retention is not None:
        yield _agreed("retention", promised.retention, table)
    if promised.completeness is not None:
        of = periods.of(config.partition)
        names = ", ".join(f"{table}.{name}" for name in of.columns) if of else table
        yield _agreed(
            "completeness", promised.completeness.late, names, f"; {config.completeness} says when it is complete"
        )


def _object_name(config: PipelineConfig) -> str:
    identifier = config.table.identifier
    return location.place(identifier).steps[-1] if location.is_path(identifier) else identifier.rpartition(".")[2]


def _agreed(name: str, value: timedelta, element: str, more: str = "") -> dict[str, Any]:
    unit, size = next(
        ((u, s) for u, s in _UNITS.items() if value % s == timedelta(0)), ("ms", timedelta(milliseconds=1))
    )
    if not value:
        unit, size = "s", timedelta(seconds=1)
    return {
        "property": name,
        "value": value // size,
        "unit": unit,
        "element": element,
        "description": _AGREED[name] + more,
    }


def _custom(config: PipelineConfig) -> Iterator[dict[str, Any]]:
    promised = config.contract
    values: dict[str, Any] = {
        "topics": [*config.source.topics] or None,
        "bronze": config.source.table,
        "valueFormat": config.decode.value.format,
        "partition": [_partition(part) for part in config.partition] or None,
        "readers": [*config.readers] or None,
    }
    if promised is not None:
        values["compatibility"] = promised.compatibility
        values["mayReplay"] = None if promised.may_replay is None else [*promised.may_replay]
        values["mayAccept"] = None if promised.may_accept is None else [*promised.may_accept]
        values["completenessTable"] = promised.completeness.table if promised.completeness else None
    yield from ({"property": name, "value": value} for name, value in values.items() if value is not None)


def _partition(part: Any) -> dict[str, Any]:
    values = {name: getattr(part, name) for name in ("by", *sorted(part.model_fields_set - {"by"}))}
    return {n: duration_text(v) if isinstance(v, timedelta) else v for n, v in values.items() if v is not None}
