"""A document of the standard as the values of a pipeline file. Start reading at `read`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lakeingest.config import location, partition_format
from lakeingest.config.odcs.names import AGREED, OWN, word
from lakeingest.config.odcs.names import columns as names_of
from lakeingest.config.parts import Partition
from lakeingest.config.values import Wait, duration_text
from lakeingest.record import TIMESTAMP
from lakeingest.schema import ddl

_OF_LOGICAL = {
    "string": "STRING",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "number": "DOUBLE",
    "integer": "BIGINT",
}
_WORDS = {
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("h", "hr", "hour", "hours"), "h"),
    **dict.fromkeys(("m", "min", "minute", "minutes"), "min"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("w", "week", "weeks"), "w"),
}
_YEARS = ("y", "yr", "yrs", "year", "years")


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
        _without(self.data, {"version": "1.0.0", "status": "active"}, "kind", "apiVersion")
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
                self.custom[name] = each.pop("value", None)
                _alone(each, "property")
            left.append(each)
        _put_back(self.data, "customProperties", left)

    def _names(self) -> None:
        identifier, name = self.data.get("id"), self.data.pop("name", None)
        wanted = next((str(each) for each in (name, identifier) if each not in (None, "")), "pipeline")
        slug = re.sub(r"[^A-Za-z0-9._-]+", "_", wanted).strip("._-")[:200] or "pipeline"
        _without(self.data, {"id": wanted})
        self.values["name"] = slug
        if slug != wanted:
            self.notes["name",] = f"the document is called {wanted!r}"
        topics = self.custom.get("topics")
        self.values["source"] = {"topics": topics if isinstance(topics, list) and topics else [slug]}
        if not topics:
            self.notes["source",] = "the document names no topic: correct this"
        if (form := self.custom.get("valueFormat")) not in (None, "json"):
            self.values["decode"] = {"value": {"format": form}}
            self.notes["decode",] = "the columns come with the records: those of the document are left out"
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
            _without(server, {"server": "table"}, "type", "format")
            _alone(server, "server")
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
        physical, described = of_table.get("physicalName"), of_table.pop("description", None)
        if "table" not in self.values and isinstance(physical, str):
            self.values["table"] = {"path" if location.is_path(physical) else "name": physical}
        self._table_names(of_table)
        if described is not None and described != self.contract.setdefault("description", described):
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
                own = {"description": OWN[name][1]} if name in OWN else {}
                _without(each, own, "logicalType", "physicalType", "required", "primaryKey", "primaryKeyPosition")
            else:
                try:
                    columns.append(f"{word(name)} {self._column(each)}")
                except ValueError as wrong:
                    self.left_out[f"schema[0].properties[{len(left)}] ({name}).type"] = str(wrong)
                    _without(each, {}, "logicalType", "physicalType")
            _alone(each, "name")
            left.append(each)
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
        if not isinstance(given, list):
            return set()
        self.values["partition"] = given
        try:
            parts = TypeAdapter(tuple[Partition, ...]).validate_python(given)
            return {n for part in parts for n in names_of(part) if n != getattr(part, "field", None)}
        except (ValidationError, partition_format.FormatError):
            return set()

    def _column(self, each: dict[str, Any]) -> str:
        """The type of a property as DDL, with NOT NULL and comment; takes out what it is made of.

        Raises:
            ValueError: there is no such type.
        """
        self._quality(each)
        kind = self._type_of(each)
        required, described = each.get("required"), each.get("description")
        _without(each, {"required": required if isinstance(required, bool) else None})
        found = kind + (" NOT NULL" if required is True else "")
        if isinstance(described, str):
            del each["description"]
            found += f" COMMENT {ddl.text(described)}" if described else ""
        try:
            ddl.parse(f"{word(each['name'])} {found}")
        except ddl.DdlError as wrong:
            raise ValueError("; ".join(wrong.problems)) from None
        return found

    def _type_of(self, each: dict[str, Any]) -> str:
        """The type of a property, without what is said of it: of the properties within it, if it names them all."""
        physical, logical = each.get("physicalType"), each.get("logicalType")
        parsed = isinstance(physical, str) and _is_type(physical)
        within = _list(each, "properties")
        named = all(isinstance(f, dict) and isinstance(f.get("name"), str) for f in within)
        if logical == "object" and within and named:
            fields = ", ".join(f"{word(field['name'])}: {self._column(field)}" for field in within)
            found = f"STRUCT<{fields}>"
            for field in within:
                _alone(field, "name")
            _put_back(each, "properties", within)
        elif logical == "array" and isinstance(each.get("items"), dict):
            found = f"ARRAY<{self._type_of(each['items'])}>"
            if not each["items"]:
                del each["items"]
        elif parsed:
            found = str(physical)
        elif isinstance(logical, str) and logical in _OF_LOGICAL:
            found = _OF_LOGICAL[logical]
        else:
            said = " ".join(str(t) for t in (physical, logical) if t is not None)
            raise ValueError(f"no type of a column: {said or 'none is named'}")
        _without(each, {}, "logicalType", *(["physicalType"] if parsed else []))
        return found

    def _table_names(self, of_table: dict[str, Any]) -> None:
        """Take out of the table's object what only repeats where the table lies."""
        place = next(iter(self.values.get("table", {"name": ""}).values()))
        short = re.split(r"[/.]", place.rstrip("/"))[-1]
        _without(of_table, {"physicalType": "table", "logicalType": "object"})
        for name in ("name", "physicalName"):
            if of_table.get(name) in (place, re.sub("^s3a:", "s3:", place), short):
                del of_table[name]

    def _quality(self, node: dict[str, Any]) -> None:
        left = []
        for check in _list(node, "quality"):
            made = check.get("implementation") if isinstance(check, dict) else None
            named = isinstance(check, dict) and str(check.get("engine")).lower().replace("-", "") == "greatexpectations"
            if named and isinstance(made, dict) and isinstance(made.get("type"), str):
                mild = {"severity": "warning"} if check.get("severity") == "warning" else {}
                self.expectations.append({"type": made.pop("type"), "kwargs": made.pop("kwargs", None) or {}, **mild})
                _without(check, {"severity": mild.get("severity", "error"), "implementation": {}}, "type", "engine")
                _alone(check, "name")
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

    def _elements(self) -> tuple[str, ...]:
        """What the table and its records' time are called, where an agreement names what it is for."""
        place = next(iter(self.values.get("table", {"name": ""}).values()))
        short = re.split(r"[/.]", place.rstrip("/"))[-1]
        return short, f"{short}.{TIMESTAMP}"

    def _sla(self) -> None:
        options = {"latency": "freshness", "retention": "retention"}
        left = []
        for each in _list(self.data, "slaProperties"):
            name = each.get("property") if isinstance(each, dict) else None
            given = _duration(each.get("value"), each.get("unit")) if isinstance(each, dict) else None
            if given is None or name not in (*options, "completeness", "frequency"):
                left.append(each)
                continue
            _without(each, {}, "value", "unit")
            if str(each.get("description")).startswith(AGREED[name]):
                del each["description"]
            if name == "completeness" or each.get("element") in self._elements():
                each.pop("element", None)
            _alone(each, "property")
            left.append(each)
            if name == "frequency":
                self.values["trigger"] = {"every": given}
            elif name == "completeness":
                table = self.custom.get("completenessTable")
                self.contract["completeness"] = {"late": given, **({"table": table} if table else {})}
            else:
                self.contract[options[name]] = given
        _put_back(self.data, "slaProperties", left)


def _is_type(text: str) -> bool:
    try:
        ddl.parse(f"c {text}")
    except ddl.DdlError:
        return False
    return True


def _without(node: dict[str, Any], said: Mapping[str, Any], *names: str) -> None:
    """Take out of a node what has these values, and what has these names whatever its value."""
    for name in [name for name, value in said.items() if value is not None and node.get(name) == value]:
        del node[name]
    for name in names:
        node.pop(name, None)


def _alone(node: dict[str, Any], name: str) -> None:
    """Take the name of a node away of which nothing else is left."""
    if {*node} == {name}:
        del node[name]


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
