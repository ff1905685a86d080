"""The kinds of values that options of the pipeline file take: durations, time zones, topics, columns, secrets.

Each is a type that pydantic checks, with the words that `lakeingest describe` calls it by.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, WithJsonSchema
from pydantic_core import PydanticKnownError

from lakeingest import extend
from lakeingest.config import durations, kafka_options, location, sizes, time_format
from lakeingest.config.urls import is_http
from lakeingest.record import RESERVED
from lakeingest.schema import ddl

if TYPE_CHECKING:
    from lakeingest.schema.field_names import Names
    from lakeingest.schema.model import Schema


@dataclass(frozen=True)
class Kind:
    """The words that users read for a type."""

    words: str


@dataclass(frozen=True)
class SchemaFile:
    """An Avro schema file as it was when the pipeline file was read: a pipeline that runs sees no later change.

    Attributes:
        path: where it lies.
        text: what it holds.
    """

    path: str
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.path

    def columns(self, names: Names) -> tuple[ddl.Column, ...]:
        """The columns that records of this schema become, under a rule of `schema.names`.

        Raises:
            SchemaError: the text is no schema, or one that no table can hold.
        """
        from lakeingest.schema import field_names, model

        return model.value_columns(field_names.renamed(self.schema, names))

    @property
    def schema(self) -> Schema:
        """The schema that the text is.

        Raises:
            SchemaError: the text is no schema.
        """
        from lakeingest.schema.formats import avro

        return avro.read(self.text)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_TABLE_NAME = re.compile(r"(\w+\.){1,2}\w+", re.ASCII)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]/]+):(\d{1,5})")
_SHARE = re.compile(r"^\d{1,3}(\.\d+)?%$", re.ASCII)


def _field_names(value: Any) -> Any:
    if isinstance(value, str):
        return value
    for path, name in value.items():
        if not name or any(character in ddl.UNSTORABLE for character in name) or name.lower() in RESERVED:
            raise ValueError(f"{path}: {name!r} is no name for a column; write one of letters, digits and _")
    return value


def _timezone(value: str) -> str:
    # The machine's own pseudo zones are files beside the real ones, and mean something else on each machine.
    try:
        if value.startswith(("posix", "right", "localtime", "Factory")) or ZoneInfo(value).key != value:
            raise ValueError(value)
    except (ValueError, OSError, KeyError):
        from zoneinfo import available_timezones

        close = get_close_matches(value, available_timezones(), n=1, cutoff=0.75)
        raise ValueError(
            "not an IANA time zone; "
            + (f"did you mean {close[0]}?" if close else "write one such as 'UTC' or 'America/New_York'")
        ) from None
    return value


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _date_format(value: tuple[str, ...]) -> tuple[str, ...]:
    return _formats(value, "date")


def _timestamp_format(value: tuple[str, ...]) -> tuple[str, ...]:
    return _formats(value, "timestamp")


def _formats(value: tuple[str, ...], kind: time_format.Kind) -> tuple[str, ...]:
    for pattern in value:
        time_format.compiled(pattern, kind)
    return value


def _field_path(value: str) -> str:
    if not value.strip() or any(not part.strip() for part in value.split(".")):
        raise ValueError("not a field; write a name, or names joined by dots, without an empty part")
    return value


def _topic(value: str) -> str:
    if not _TOPIC.fullmatch(value) or value in (".", ".."):
        raise ValueError("not a Kafka topic's name; write 1 to 249 of letters, digits, '.', '_' and '-'")
    return value


def _topics(value: tuple[str, ...]) -> tuple[str, ...]:
    if twice := sorted({topic for topic in value if value.count(topic) > 1}):
        raise ValueError(f"the same topic twice: {', '.join(twice)}; name each once")
    return value


def _whole(value: Any) -> Any:
    """Python takes true for 1, and a variable's value is a text."""
    if isinstance(value, bool | float):
        raise ValueError("not a whole number; write one, as in 100")
    return value


def _budget(value: Any) -> Any:
    number = type(value) is int and value >= 0
    if number or (isinstance(value, str) and (value.isdecimal() or _SHARE.match(value))):
        return int(value) if number or value.isdecimal() else value
    raise ValueError("neither a number of records nor a share of them; write 100, or 1%")


def _start(value: Any) -> Any:
    if value in ("earliest", "latest"):
        return value
    try:
        offsets = {
            str(topic): {int(_whole(p)): int(_whole(offset)) for p, offset in each.items()}
            for topic, each in value.items()
        }
        good = offsets and all(each and min(*each, *each.values()) >= 0 for each in offsets.values())
    except (AttributeError, TypeError, ValueError):
        good = False
    if not good:
        raise ValueError("no place to start; write earliest, latest, or offsets, as in {flights: {0: 1500, 1: 1498}}")
    return offsets


def _brokers(value: str) -> str:
    for broker in value.split(","):
        match = _BROKER.fullmatch(broker.strip())
        if not match or not 0 < int(match[2]) < 65536:
            raise ValueError("not a list of brokers; write host:port, or host:port,host:port, without a scheme")
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            "not a name; write letters, digits, '.', '_' and '-', the first one a letter or digit; at most 200"
        )
    return value


def _table_name(value: str) -> str:
    if not _TABLE_NAME.fullmatch(value) or value.lower().startswith("delta."):
        raise ValueError(
            "not a table's name with its schema (which schema is the current one, each session says anew); write it as "
            "in lake.flights or main.bronze.flights, of letters, digits and '_', and a path as table.path"
        )
    return value


def table_place(value: str) -> str:
    """A table's path or name as it is, if one may stand in a file.

    Raises:
        ValueError: with what is wrong, and the cure.
    """
    return _table_name(value) if "." in value and not location.is_path(value) else location.checked(value)


def _columns(value: str) -> str:
    if sourced := list(ddl.sources(ddl.parse(value))):
        raise ddl.DdlError([f"{path}: FROM names a field of the value alone; drop it" for path in sourced])
    return value


def _value_columns(value: str) -> str:
    columns = ddl.parse(value)
    reserved = [c.name for c in columns if c.name.lower() in RESERVED or c.name.startswith("_")]
    if reserved:
        raise ddl.DdlError([f"{name}: names that begin with _ are lakeingest's own; rename it" for name in reserved])
    return value


def _schema_file(value: Any) -> Any:
    if isinstance(value, str):
        if not value.strip():
            raise ValueError("empty; write a path, as in '../schemas/flight.avsc'")
        raise ValueError("not read yet; let config.file check the pipeline, which reads its files")
    if not isinstance(value, SchemaFile):
        raise PydanticKnownError("string_type")
    return value


def _url(value: str) -> str:
    for each in map(str.strip, value.split(",")):
        if "@" in each:
            raise ValueError("holds credentials; write them as basic.auth.user.info in registry.options")
        if not is_http(each) or urlsplit(each).query or urlsplit(each).fragment:
            raise ValueError("not an http or https URL; write one as in 'https://registry.example.com:8081'")
    return value


_REGISTRY_OWN = {
    "url": "write it as registry.url",
    **dict.fromkeys(("timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms"), "registry.wait bounds it"),
    **dict.fromkeys(("cache.capacity", "cache.latest.ttl.sec"), "schemas are kept for as long as a run lasts"),
}


def _registry_options(value: dict[str, SecretStr]) -> dict[str, SecretStr]:
    if forbidden := [f"{name} ({_REGISTRY_OWN[name]})" for name in value if name in _REGISTRY_OWN]:
        raise ValueError(f"holds what lakeingest sets itself: {', '.join(forbidden)}; drop it")
    return value


def _storage_options(value: dict[str, SecretStr]) -> dict[str, SecretStr]:
    if strange := [name for name in value if not _HADOOP.fullmatch(name)]:
        raise ValueError(f"holds what is no option of a file system: {', '.join(strange)}; their names begin with fs.")
    return value


_HADOOP = re.compile(r"fs\.[A-Za-z0-9._-]+")


_OF_TOPICS = rf"^({_NAME.pattern}|[A-Za-z0-9._-]*\{{topic\}}[A-Za-z0-9._-]*)$"


def _class_name(value: str) -> str:
    """The name of a class of somebody's own."""
    if not extend.NAME.fullmatch(value):
        raise ValueError("not a class; write module:Class, or the name of an entry point")
    return value


Name = Annotated[str, AfterValidator(_name), Kind("name"), Field(json_schema_extra={"pattern": _OF_TOPICS})]
Own = Annotated[str, AfterValidator(_class_name), Kind("class, or entry point")]
Topic = Annotated[str, AfterValidator(_topic), Kind("topic")]
Start = Annotated[
    Literal["earliest", "latest"] | dict[str, dict[int, int]],
    BeforeValidator(_start),
    Kind("earliest, latest, or map of topic: map of partition: offset"),
]
_PATTERN = {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}
_LIST = {"type": "array", "items": {"type": "string"}, "minItems": 1}
Topics = Annotated[
    tuple[Topic, ...],
    AfterValidator(_topics),
    Field(min_length=1),
    Kind("list of topics, or a pattern"),
    # What `per_topic` makes pipelines of is no value of the model's.
    WithJsonSchema({"anyOf": [_LIST, {**_PATTERN, "additionalProperties": False}]}),
]
WHOLE = BeforeValidator(_whole)
Budget = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=_SHARE.pattern)],
    BeforeValidator(_budget),
    Kind("number of records, or share of them"),
]
Brokers = Annotated[str, AfterValidator(_brokers), Kind("host:port,…")]
Duration = Annotated[timedelta, BeforeValidator(durations.duration, json_schema_input_type=str), Kind("duration")]
Size = Annotated[int, BeforeValidator(sizes.size, json_schema_input_type=int | str), Kind("size")]
Wait = Annotated[timedelta, BeforeValidator(durations.wait, json_schema_input_type=str), Kind("duration, or 0 seconds")]
Period = Annotated[
    Literal["hour", "day", "month", "year"] | timedelta,
    BeforeValidator(durations.period_of, json_schema_input_type=Literal["hour", "day", "month", "year"] | str),
    Kind(f"one of {', '.join(durations.PERIODS)}, or a duration"),
]
Timezone = Annotated[str, AfterValidator(_timezone), Kind("time zone")]
_Listed = BeforeValidator(_listed, json_schema_input_type=str | list[str])
_Patterns = Annotated[tuple[str, ...], Field(min_length=1)]
DateFormat = Annotated[_Patterns, AfterValidator(_date_format), _Listed, Kind("pattern, or list of patterns")]
TimestampFormat = Annotated[_Patterns, AfterValidator(_timestamp_format), _Listed, Kind("pattern, or list of patterns")]
FieldPath = Annotated[str, AfterValidator(_field_path), Kind("field")]
Location = Annotated[str, AfterValidator(location.checked), Kind("path")]
Columns = Annotated[str, AfterValidator(_columns), Kind("columns as DDL")]
FieldNames = Annotated[
    Literal["exact", "safe"] | dict[str, str],
    AfterValidator(_field_names),
    Kind("exact, safe, or map of field: name"),
]
ValueColumns = Annotated[str, AfterValidator(_value_columns), Kind("columns as DDL")]
SchemaPath = Annotated[SchemaFile, BeforeValidator(_schema_file, json_schema_input_type=str), Kind("path")]
TableName = Annotated[str, AfterValidator(_table_name), Kind("table's name")]
TablePlace = Annotated[str, AfterValidator(table_place), Kind("path, or table's name")]
Url = Annotated[str, AfterValidator(_url), Kind("http or https URL")]
Secret = Annotated[SecretStr, Kind("secret text")]
SourceOptions = Annotated[dict[str, Secret], AfterValidator(kafka_options.check), Kind("map of name: secret text")]
StorageOptions = Annotated[dict[str, Secret], AfterValidator(_storage_options), Kind("map of name: secret text")]
RegistryOptions = Annotated[dict[str, Secret], AfterValidator(_registry_options), Kind("map of name: secret text")]
