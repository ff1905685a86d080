"""A pipeline's contract as a document of the Open Data Contract Standard (ODCS, version 3), and one as a pipeline file.

What the standard has no word for stands in customProperties, so that a document that lakeingest wrote says all that the
pipeline file says of the table. Of one that somebody else wrote, each part without a counterpart is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lakeingest.config import location, partition_format, periods
from lakeingest.config.parts import FieldPartition, TimePartition
from lakeingest.config.pipeline import PipelineConfig
from lakeingest.config.values import Wait, duration_text
from lakeingest.record import OFFSET, PARTITION, TIMESTAMP, TOPIC
from lakeingest.schema import ddl

API = "v3.1.0"
ENGINE = "great-expectations"
_KEY = (TOPIC, PARTITION, OFFSET)
_OWN = {
    TOPIC: ("string", "the record's topic"),
    PARTITION: ("integer", "its Kafka partition"),
    OFFSET: ("long", "its offset: topic, partition and offset are there once"),
    TIMESTAMP: ("timestamp", "its Kafka timestamp"),
}
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
_OF_LOGICAL = {
    "string": "STRING",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "number": "DOUBLE",
    "integer": "BIGINT",
}
_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
_WORDS = {
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("h", "hr", "hour", "hours"), "h"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "min"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("w", "week", "weeks"), "w"),
}
_YEARS = ("y", "yr", "yrs", "year", "years")
_PERSON = re.compile(r"(.*\S) <(.+)>")


@dataclass(frozen=True)
class Check:
    """An expectation of the gate's suite, as a quality check of the table or of one of its columns."""

    name: str
    type: str
    kwargs: Mapping[str, Any]
    columns: Sequence[str]
    strict: bool


# Out -----------------------------------------------------------------------------------------------------------------


def document(
    config: PipelineConfig, columns: Sequence[Mapping[str, Any]] | None, checks: Sequence[Check]
) -> dict[str, Any]:
    """The document of a pipeline.

    Args:
        columns: the table's, as Delta's log has them; None while there is no table: then what the file declares.
        checks: what the gate's suite asks.
    """
    promised = config.contract
    made: dict[str, Any] = {
        "kind": "DataContract",
        "apiVersion": API,
        "id": config.known_as,
        "name": config.name,
        "version": "1.0.0",
        "status": "active",
        "description": {"purpose": config.comment} if config.comment else None,
        "servers": [_server(config)],
        "schema": [_object(config, columns, checks)],
        "team": {"members": [_member(owner) for owner in promised.owners]} if promised and promised.owners else None,
        "slaProperties": [*_sla(config)],
        "customProperties": [*_custom(config)],
    }
    return {name: value for name, value in made.items() if value}


def _server(config: PipelineConfig) -> dict[str, Any]:
    table = config.table
    known: dict[str, Any] = {"server": "table", "format": "delta"}
    if table.path is None:
        *catalog, schema, _ = str(table.name).split(".")
        return {**known, "type": "custom", "schema": schema, **({"catalog": catalog[0]} if catalog else {})}
    place = location.place(table.path)
    if not place.on_s3:
        return {**known, "type": "local", "path": table.path}
    endpoint = {"endpointUrl": config.storage.endpoint} if config.storage.endpoint else {}
    return {**known, "type": "s3", "location": f"s3://{'/'.join((place.bucket, *place.steps))}", **endpoint}


def _object(
    config: PipelineConfig, columns: Sequence[Mapping[str, Any]] | None, checks: Sequence[Check]
) -> dict[str, Any]:
    by_column: dict[str, list[dict[str, Any]]] = {}
    of_table: list[dict[str, Any]] = []
    there = [*columns] if columns is not None else [*_declared(config)]
    names = {column["name"] for column in there}
    for check in checks:
        one = len(check.columns) == 1 and check.columns[0] in names
        (by_column.setdefault(check.columns[0], []) if one else of_table).append(_quality(check))
    parts = [*_partition_columns(config)]
    made = []
    for column in there:
        name = column["name"]
        found = _property(column)
        if name in _KEY:
            found |= {"primaryKey": True, "primaryKeyPosition": _KEY.index(name) + 1}
        if name in parts:
            found |= {"partitioned": True, "partitionKeyPosition": parts.index(name) + 1}
        if name in by_column:
            found["quality"] = by_column[name]
        made.append(found)
    identifier = config.table.identifier
    short = location.place(identifier).steps[-1] if location.is_path(identifier) else identifier.rpartition(".")[2]
    table = {"name": short, "physicalName": identifier, "physicalType": "table", "logicalType": "object"}
    if config.comment:
        table["description"] = config.comment
    return {**table, "properties": made, **({"quality": of_table} if of_table else {})}


def _declared(config: PipelineConfig) -> Iterator[dict[str, Any]]:
    """The columns that a table will have, as far as the file tells."""
    import json

    yield from json.loads(ddl.to_json(config.columns))["fields"]
    for name, (kind, comment) in _OWN.items():
        yield {"name": name, "type": kind, "nullable": name == TIMESTAMP, "metadata": {"comment": comment}}
    known = {column.name for column in config.columns}
    for name in _partition_columns(config):
        if name not in known:
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


def _names(part: Any) -> tuple[str, ...]:
    if isinstance(part, TimePartition):
        return tuple(segment.name for segment in partition_format.segments(part))
    return (
        (partition_format.field_name(part),)
        if isinstance(part, FieldPartition)
        else (partition_format.KAFKA_PARTITION,)
    )


def _property(field: Mapping[str, Any]) -> dict[str, Any]:
    found = {"name": field["name"], **_type(field["type"])}
    if not field["nullable"]:
        found["required"] = True
    if comment := (field.get("metadata") or {}).get("comment"):
        found["description"] = comment
    return found


def _type(kind: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"physicalType": _physical(kind)}
    if isinstance(kind, str):
        # The standard's schema takes a property without a logical type for a map.
        logical = "number" if kind.startswith("decimal") else _LOGICAL.get(kind, "object")
        return {"logicalType": logical, **found}
    match kind["type"]:
        case "struct":
            return {"logicalType": "object", **found, "properties": [_property(each) for each in kind["fields"]]}
        case "array":
            return {"logicalType": "array", **found, "items": _type(kind["elementType"])}
    return {"logicalType": "object", **found}


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


def _word(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else ddl.quoted(name)


def _quality(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "type": "custom",
        "engine": ENGINE,
        "implementation": {"type": check.type, "kwargs": dict(check.kwargs)},
        "severity": "error" if check.strict else "warning",
    }


def _member(owner: str) -> dict[str, str]:
    both = _PERSON.fullmatch(owner)
    return {"username": both[2], "name": both[1], "role": "owner"} if both else {"username": owner, "role": "owner"}


def _sla(config: PipelineConfig) -> Iterator[dict[str, Any]]:
    table = _object_name(config)
    promised = config.contract
    yield _agreed("frequency", config.trigger.every, table, "how often records are committed")
    if promised is None:
        return
    if promised.freshness is not None:
        what = "from a record's Kafka timestamp until it is in the table"
        yield _agreed("latency", promised.freshness, f"{table}.{TIMESTAMP}", what)
    if promised.retention is not None:
        yield _agreed("retention", promised.retention, table, "how long rows stay in the table at least")
    if promised.completeness is not None:
        of = periods.of(config.partition)
        names = ", ".join(f"{table}.{name}" for name in of.columns) if of else table
        what = (
            f"behind a period's end its records may still come so long; {config.completeness} says when it is complete"
        )
        yield _agreed("completeness", promised.completeness.late, names, what)


def _object_name(config: PipelineConfig) -> str:
    identifier = config.table.identifier
    return location.place(identifier).steps[-1] if location.is_path(identifier) else identifier.rpartition(".")[2]


def _agreed(name: str, value: timedelta, element: str, what: str) -> dict[str, Any]:
    unit, size = next(
        ((u, s) for u, s in _UNITS.items() if value % s == timedelta(0)), ("ms", timedelta(milliseconds=1))
    )
    if not value:
        unit, size = "s", timedelta(seconds=1)
    return {"property": name, "value": value // size, "unit": unit, "element": element, "description": what}


def _custom(config: PipelineConfig) -> Iterator[dict[str, Any]]:
    promised = config.contract
    found: dict[str, Any] = {
        "topics": [*config.source.topics],
        "valueFormat": config.decode.value.format,
        "partition": [_partition(part) for part in config.partition] or None,
        "readers": [*config.readers] or None,
    }
    if promised is not None:
        found["compatibility"] = promised.compatibility
        found["mayReplay"] = None if promised.may_replay is None else [*promised.may_replay]
        found["mayAccept"] = None if promised.may_accept is None else [*promised.may_accept]
        found["completenessTable"] = promised.completeness.table if promised.completeness else None
    yield from ({"property": name, "value": value} for name, value in found.items() if value is not None)


def _partition(part: Any) -> dict[str, Any]:
    given = {name: getattr(part, name) for name in ("by", *sorted(part.model_fields_set - {"by"}))}
    return {n: duration_text(v) if isinstance(v, timedelta) else v for n, v in given.items() if v is not None}


# In ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Imported:
    """What a document became.

    Attributes:
        values: those of a pipeline file.
        expectations: those of the gate's suite: type and kwargs.
        left_out: the parts that have no counterpart: where, and why not or what stands there.
        notes: where → what was assumed.
    """

    values: Mapping[str, Any]
    expectations: Sequence[Mapping[str, Any]]
    left_out: Mapping[str, str]
    notes: Mapping[tuple[str, ...], str]


class NoDocument(ValueError):
    """It is no document of the standard that is known, with what is wrong."""


def read(data: Any) -> Imported:
    """What a document, as its YAML gives it, becomes.

    Raises:
        NoDocument: it is none of version 3.
    """
    if not isinstance(data, Mapping) or data.get("kind") != "DataContract":
        raise NoDocument("it has no 'kind: DataContract'")
    version = str(data.get("apiVersion", ""))
    if not version.startswith("v3."):
        raise NoDocument(f"its apiVersion is {version or 'missing'}, and v3.0.0 to v3.2.0 are known")
    return _Reader(deepcopy(dict(data))).read()


class _Reader:
    """Takes out of a document what it understands; what stays there has no counterpart."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.values: dict[str, Any] = {}
        self.contract: dict[str, Any] = {}
        self.notes: dict[tuple[str, ...], str] = {}
        self.left_out: dict[str, str] = {}
        self.expectations: list[Mapping[str, Any]] = []
        self.custom: dict[str, Any] = {}

    def read(self) -> Imported:
        for name in ("kind", "apiVersion", "version"):
            self.data.pop(name, None)
        if self.data.get("status") == "active":
            del self.data["status"]
        self._custom()
        self._names()
        self._servers()
        self._schema()
        self._team()
        self._sla()
        made = self.values
        if self.contract:
            made["contract"] = self.contract
        self.left_out |= dict(_leaves(self.data, ""))
        return Imported(_escaped(made), self.expectations, self.left_out, self.notes)

    def _custom(self) -> None:
        known = {"topics", "valueFormat", "partition", "readers", "compatibility", "mayReplay", "mayAccept"}
        known |= {"completenessTable"}
        left = []
        for each in _list(self.data, "customProperties"):
            name = each.get("property") if isinstance(each, dict) else None
            if isinstance(name, str) and name in known and name not in self.custom:
                self.custom[name] = each.get("value")
                each = {}  # noqa: PLW2901
            left.append(each)
        _put_back(self.data, "customProperties", left)

    def _names(self) -> None:
        identifier, name = self.data.pop("id", None), self.data.pop("name", None)
        wanted = next((str(each) for each in (name, identifier) if each not in (None, "")), "pipeline")
        slug = re.sub(r"[^A-Za-z0-9._-]+", "_", wanted).strip("._-")[:200] or "pipeline"
        self.values["name"] = slug
        if slug != wanted:
            self.notes["name",] = f"the document is called {wanted!r}"
        topics = self.custom.get("topics")
        self.values["source"] = {"topics": topics if isinstance(topics, list) and topics else [slug]}
        if not topics:
            self.notes["source",] = "the document names no topic: correct this"
        if (form := self.custom.get("valueFormat")) not in (None, "json"):
            self.values["decode"] = {"value": {"format": form}}
        described = self.data.get("description")
        if isinstance(described, dict) and isinstance(described.get("purpose"), str):
            self.contract["description"] = described.pop("purpose")
        for option, name in (("readers", "readers"),):
            if name in self.custom:
                self.values[option] = self.custom[name]
        for option, name in (
            ("compatibility", "compatibility"),
            ("may_replay", "mayReplay"),
            ("may_accept", "mayAccept"),
        ):
            if name in self.custom:
                self.contract[option] = self.custom[name]

    def _servers(self) -> None:
        left, table = [], dict[str, Any]()
        for server in _list(self.data, "servers"):
            kind = server.get("type") if isinstance(server, dict) else None
            if table or kind not in ("s3", "local") or server.get("format", "delta") != "delta":
                left.append(server)
                continue
            place = server.pop("location" if kind == "s3" else "path", None)
            if not isinstance(place, str) or not place:
                left.append(server)
                continue
            table["path"] = re.sub(r"^s3n?://", "s3a://", place) if kind == "s3" else place
            if endpoint := server.pop("endpointUrl", None):
                self.values["storage"] = {"endpoint": endpoint, "path_style": True}
                self.notes["storage",] = (
                    "whether the bucket is part of the path or of the host's name, its server knows"
                )
            for name in ("server", "type", "format"):
                server.pop(name, None)
            left.append(server)
        _put_back(self.data, "servers", left)
        if table:
            self.values["table"] = table

    def _schema(self) -> None:
        objects = _list(self.data, "schema")
        of_table = next((each for each in objects if isinstance(each, dict)), None)
        if of_table is None:
            _put_back(self.data, "schema", objects)
            return
        for name in ("name", "physicalType", "logicalType"):
            of_table.pop(name, None)
        physical, described = of_table.pop("physicalName", None), of_table.pop("description", None)
        if "table" not in self.values and isinstance(physical, str):
            self.values["table"] = {"path" if location.is_path(physical) else "name": physical}
        if isinstance(described, str) and described != self.contract.setdefault("description", described):
            of_table["description"] = described
        partition = self.custom.get("partition")
        computed = self._partition(partition)
        columns, left, cut = [], [], []
        for each in _list(of_table, "properties"):
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                left.append(each)
                continue
            name = str(each["name"])
            position = each.pop("partitionKeyPosition", 0)
            if each.pop("partitioned", False) is True and not isinstance(partition, list):
                times = each.get("logicalType") in ("timestamp", "date")
                part = {"by": "time", "field": name, "every": "day"} if times else {"by": "field", "field": name}
                cut.append((position if isinstance(position, int) else 0, name, part))
            if name.startswith("_") or name in computed:
                # lakeingest's own: each table has them, or the partition makes them.
                left.append({})
                continue
            try:
                columns.append(f"{_word(name)} {self._column(each)}")
                left.append(each if {*each} > {"name"} else {})
            except ValueError as wrong:
                self.left_out[f"schema[0].properties[{len(left)}] ({name})"] = str(wrong)
                left.append({})
        self._quality(of_table)
        if columns and self.values.get("decode") is None:
            self.values["schema"] = {"columns": ", ".join(columns)}
        if cut:
            self.values["partition"] = [part for _, _, part in sorted(cut, key=lambda each: each[:2])]
            self.notes["partition",] = (
                "a time is cut into days, in UTC, where the document does not say how: correct this"
            )
        _put_back(of_table, "properties", left)
        _put_back(self.data, "schema", objects)

    def _partition(self, given: Any) -> set[str]:
        """The names of the columns that the partitions make by themselves."""
        from lakeingest.config.parts import Partition

        if not isinstance(given, list):
            return set()
        self.values["partition"] = given
        try:
            parts = TypeAdapter(tuple[Partition, ...]).validate_python(given)
            return {n for part in parts for n in _names(part) if n != getattr(part, "field", None)}
        except (ValidationError, partition_format.FormatError):
            return set()

    def _column(self, each: dict[str, Any]) -> str:
        """The type of a property as DDL, with NOT NULL and comment; takes out what it is made of.

        Raises:
            ValueError: there is no such type.
        """
        self._quality(each)
        kind = self._type_of(each)
        name, required, described = each["name"], each.pop("required", False), each.pop("description", None)
        found = kind + (" NOT NULL" if required is True else "")
        if isinstance(described, str) and described:
            found += f" COMMENT {ddl.text(described)}"
        try:
            ddl.parse(f"{_word(name)} {found}")
        except ddl.DdlError as wrong:
            raise ValueError("; ".join(wrong.problems)) from None
        return found

    def _type_of(self, each: dict[str, Any]) -> str:
        physical, logical = each.get("physicalType"), each.get("logicalType")
        if isinstance(physical, str):
            try:
                ddl.parse(f"c {physical}")
            except ddl.DdlError:
                pass
            else:
                for name in ("physicalType", "logicalType", "properties", "items"):
                    each.pop(name, None)
                return physical
        if logical == "object" and _list(each, "properties"):
            inside = [f"{_word(str(f['name']))}: {self._type_of(f)}" for f in each["properties"] if isinstance(f, dict)]
            each.pop("properties")
            found = f"STRUCT<{', '.join(inside)}>"
        elif logical == "array" and isinstance(each.get("items"), dict):
            found = f"ARRAY<{self._type_of(each.pop('items'))}>"
        elif isinstance(logical, str) and logical in _OF_LOGICAL:
            found = _OF_LOGICAL[logical]
        else:
            said = " ".join(str(t) for t in (physical, logical) if t is not None)
            raise ValueError(f"no type of a column: {said or 'none is named'}")
        each.pop("logicalType")
        return found

    def _quality(self, node: dict[str, Any]) -> None:
        left = []
        for check in _list(node, "quality"):
            made = check.get("implementation") if isinstance(check, dict) else None
            named = isinstance(check, dict) and str(check.get("engine")).lower().replace("-", "") == "greatexpectations"
            if named and isinstance(made, dict) and isinstance(made.get("type"), str):
                self.expectations.append({"type": made["type"], "kwargs": made.get("kwargs") or {}})
                check = {}  # noqa: PLW2901
            left.append(check)
        _put_back(node, "quality", left)

    def _team(self) -> None:
        team = self.data.get("team")
        members = _list(team, "members") if isinstance(team, dict) else team if isinstance(team, list) else []
        owners, left = [], []
        for each in members:
            user = each.get("username") if isinstance(each, dict) else None
            if not isinstance(user, str) or each.get("role", "owner") != "owner" or each.get("dateOut"):
                left.append(each)
                continue
            name = each.get("name")
            owners.append(f"{name} <{user}>" if isinstance(name, str) and "@" in user else user)
            left.append({key: value for key, value in each.items() if key not in ("username", "name", "role")})
        if owners:
            self.contract["owners"] = owners
        if isinstance(team, dict):
            _put_back(team, "members", left)
        elif isinstance(team, list):
            _put_back(self.data, "team", left)

    def _sla(self) -> None:
        options = {"latency": "freshness", "retention": "retention"}
        left = []
        for each in _list(self.data, "slaProperties"):
            name = each.get("property") if isinstance(each, dict) else None
            given = _duration(each.get("value"), each.get("unit")) if isinstance(each, dict) else None
            if given is None or name not in (*options, "completeness", "frequency"):
                left.append(each)
                continue
            left.append({})
            if name == "frequency":
                self.values["trigger"] = {"every": given}
            elif name == "completeness":
                table = self.custom.get("completenessTable")
                self.contract["completeness"] = {"late": given, **({"table": table} if table else {})}
            else:
                self.contract[options[name]] = given
        self.data.pop("slaDefaultElement", None)
        _put_back(self.data, "slaProperties", left)


def _duration(value: Any, unit: Any) -> str | None:
    """A duration as a pipeline file has it; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or not isinstance(unit, str):
        return None
    word = unit.strip().lower()
    if word in _YEARS:
        text = f"{value * 365} d"
    elif word in _WORDS:
        text = f"{value} {_WORDS[word]}"
    else:
        return None
    try:
        found: timedelta = TypeAdapter(Wait).validate_python(text)
    except ValidationError:
        return None
    return duration_text(found) if found else "0 seconds"


def _list(node: Any, name: str) -> list[Any]:
    found = node.get(name) if isinstance(node, Mapping) else None
    return found if isinstance(found, list) else []


def _put_back(node: dict[str, Any], name: str, left: list[Any]) -> None:
    """Leave of a list what was not taken; what is no list stays as it is."""
    if isinstance(node.get(name), list):
        if any(each not in ({}, None) for each in left):
            node[name] = left
        else:
            del node[name]


def _leaves(node: Any, path: str) -> Iterator[tuple[str, str]]:
    """Each value that is left, by its place; those of one element of a list together."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _leaves(value, f"{path}.{name}" if path else str(name))
    elif isinstance(node, list):
        for at, value in enumerate(node):
            place = f"{path}[{at}]"
            if not isinstance(value, Mapping):
                yield from _leaves(value, place)
                continue
            known = next((name for name in ("name", "property", "server", "role") if name in value), None)
            there = f"{place} ({value[known]})" if known else place
            plain = {
                k: v for k, v in value.items() if not isinstance(v, Mapping | list) and v is not None and k != known
            }
            if plain or {*value} == {known}:
                yield there, ", ".join(f"{name}: {each}" for name, each in plain.items())
            yield from _leaves({k: v for k, v in value.items() if isinstance(v, Mapping | list)}, there)
    elif node is not None:
        yield path, str(node)


def _escaped(value: Any) -> Any:
    """Texts of others in a pipeline file, which would fill in ${…} from the environment."""
    if isinstance(value, Mapping):
        return {name: _escaped(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    return value.replace("${", "$${") if isinstance(value, str) else value
