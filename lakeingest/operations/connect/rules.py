"""How Confluent's options become those of a pipeline file, part by part: what needs more than a row of `outcomes`.

Where a rule needs a reason it is Confluent's documentation of the S3 sink, and docs/how-to/confluent.md for users.
"""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

from lakeingest.config.durations import duration_text
from lakeingest.config.partition_format import FormatError
from lakeingest.operations.connect import joda
from lakeingest.operations.connect.translation import HIDDEN, Translation, simple

_FORMATS = {
    "AvroConverter": "avro",
    "AWSKafkaAvroConverter": "avro",
    "ProtobufConverter": "protobuf",
    "JsonSchemaConverter": "json_schema",
    "JsonConverter": "json",
    "StringConverter": "string",
    "ByteArrayConverter": "bytes",
    "AlreadyBytesConverter": "bytes",
}
_AWS = "com.amazonaws.services.schemaregistry."
"""The package of the converters whose schemas AWS Glue has."""
_BY_REGISTRY = ("avro", "protobuf", "json_schema")
_STRATEGIES = {
    "TopicNameStrategy": "topic",
    "RecordNameStrategy": "record",
    "TopicRecordNameStrategy": "topic_record",
}
_FEWEST = 10_000
"""Records of a batch: a commit takes about a second, so that fewer would hold a pipeline back that has a backlog."""
_HOUR, _DAY = 3_600_000, 86_400_000
_LONGEST = 30 * _DAY


def decode(t: Translation) -> None:
    """value.converter, key.converter, behavior.on.null.values."""
    value_format = _value(t)
    if value_format is None:
        t.missing["decode.value"] = "value.converter is not in the configuration, and so the worker's: see --worker"
    if value_format == "json":
        t.missing["schema.columns"] = "Connect takes JSON without columns, and a table needs them"
    key = _format(t, "key")
    if key in (*_BY_REGISTRY, "string") and t.yes("store.kafka.keys"):
        t.set("decode.key", {"format": key})
        t.tell("key.converter", "carried", "decode.key")
    on_null = t.get("behavior.on.null.values").lower()
    if "on_null" in t.file.get("decode", {}):
        t.tell("behavior.on.null.values", "ignored", why="a transform takes the records without a value before")
    elif on_null in ("ignore", "write"):
        t.set("decode.on_null", on_null)
        why = "" if on_null == "write" else "they are counted, and `audit` knows of them"
        t.tell("behavior.on.null.values", "carried", "decode.on_null", why)


def _format(t: Translation, side: str) -> str | None:
    return _FORMATS.get(simple(t.get(f"{side}.converter")))


def _value(t: Translation) -> str | None:
    """Write the format of the value; None where it is not known."""
    option, converter = "value.converter", simple(t.get("value.converter"))
    value_format = _format(t, "value")
    registry(t)
    strategy = simple(t.get(f"{option}.value.subject.name.strategy") or t.get("value.subject.name.strategy"))
    if strategy in _STRATEGIES:
        for name in (f"{option}.value.subject.name.strategy", "value.subject.name.strategy"):
            t.tell(name, "carried", "decode.value.subject")
    if value_format is None:
        if converter:
            t.set("decode.value", {"format": "bytes"}, f"{converter} is not known here: its bytes are kept.")
        why = "a class of your own can decode them (transform: [{own: module:Class}])"
        t.tell(option, "impossible", "decode.value", f"not known here: the bytes are kept in the column value; {why}")
        return None
    part = {"format": value_format}
    if value_format in _BY_REGISTRY and _STRATEGIES.get(strategy, "topic") != "topic":
        part["subject"] = _STRATEGIES[strategy]
    t.set("decode.value", part)
    envelope = value_format == "json" and t.yes(f"{option}.schemas.enable") is not False
    if envelope:
        why = (
            "each value is {schema, payload}, as schemas.enable is not false: declare payload STRUCT<…>, and write "
            "transform: [{flatten: [payload]}]; if the values are plain objects, declare their fields"
        )
        t.tell(f"{option}.schemas.enable", "changed", "schema.columns", why)
        t.tell(option, "changed", "decode.value", why)
    t.tell(f"{option}.schemas.enable", "ignored", why="plain objects are what format json reads")
    t.tell(option, "carried", "decode.value")
    return value_format


def registry(t: Translation) -> None:
    """Where the registry is, and how it is reached."""
    prefix = "value.converter."
    if t.get("value.converter").startswith(_AWS) and _format(t, "value"):
        t.set("registry.glue", {})
        for option, name in (("registry.name", "registry"), ("region", "region"), ("endpoint", "endpoint")):
            t.carry(f"{prefix}{option}", f"registry.glue.{name}")
        for option in [o for o in t.options if o.startswith(f"{prefix}schema.registry.")]:
            t.tell(option, "ignored", why="the schemas are AWS Glue's, as value.converter says")
    url = f"{prefix}schema.registry.url"
    if t.has_login(url):
        t.set("registry.url", t.text(url))
        t.set_entry("registry.options", "basic.auth.user.info", t.variable("SCHEMA_REGISTRY_USER_INFO"))
        t.tell(url, "changed", "registry.url, registry.options", f"user and password: {HIDDEN}")
    t.carry(url, "registry.url")
    for start in (f"{prefix}schema.registry.", prefix):
        for option, variable in (
            ("basic.auth.user.info", "SCHEMA_REGISTRY_USER_INFO"),
            ("bearer.auth.token", "SCHEMA_REGISTRY_TOKEN"),
        ):
            t.carry(f"{start}{option}", "registry.options", option, secret=variable)
    address = t.file.get("registry", {}).get("url")
    if (context := t.get("schema.context.name").strip(":.")) and address and context != "default":
        t.set("registry.url", f"{address.rstrip('/')}/contexts/.{context}")
        t.tell("schema.context.name", "carried", "registry.url")


def schema(t: Translation) -> None:
    """schema.compatibility."""
    mode = t.get("schema.compatibility", "NONE").upper()
    brings = t.file.get("decode", {}).get("value", {}).get("format") in _BY_REGISTRY
    if brings and mode in ("NONE", "BACKWARD", "FORWARD", "FULL"):
        note = "" if "schema.compatibility" in t else "The sink's default. BACKWARD keeps the table's columns in order."
        t.set("schema.compatibility", mode, note)
        t.tell("schema.compatibility", "carried", "schema.compatibility", "kept for the table, and not for each file")


def partition(t: Translation) -> None:
    """partitioner.class and all that belongs to it."""
    kind = simple(t.get("partitioner.class")) or "DefaultPartitioner"
    by: list[dict[str, str]] = []
    if "Field" in kind and kind != "RecordFieldTimeBasedPartitioner":
        by += [
            {"by": "field", "field": name.strip()} for name in t.get("partition.field.name").split(",") if name.strip()
        ]
        t.tell("partition.field.name", "carried", "partition")
    if kind in ("DailyPartitioner", "HourlyPartitioner") or "Time" in kind:
        by += _time(t, kind)
    if kind == "DefaultPartitioner":
        by.append({"by": "kafka_partition"})
        t.tell("partitioner.class", "changed", "partition", "partition=N in the bucket is kafka_partition=N")
    if by:
        t.set("partition", by)
    if kind in _PARTITIONERS:
        t.tell("partitioner.class", "carried", "partition")
    elif by:
        why = "a partitioner of your own: what its options say is carried over; compare the folders"
        t.tell("partitioner.class", "changed", "partition", why)
    why = "a partitioner of your own: write partition; by a column of derive, or of a class, if need be"
    t.tell("partitioner.class", "impossible", why=why)
    for option in ("path.format", "partition.duration.ms", "locale", "timezone", "timestamp.extractor",
                   "timestamp.field", "partition.field.name"):  # fmt: skip
        t.tell(option, "ignored", why=f"{kind} does not ask for it")


_PARTITIONERS = ("DefaultPartitioner", "FieldPartitioner", "TimeBasedPartitioner", "DailyPartitioner",
                 "HourlyPartitioner")  # fmt: skip


def _time(t: Translation, kind: str) -> list[dict[str, str]]:
    part = {"by": "time"}
    _extractor(t, part)
    whole = {"DailyPartitioner": _DAY, "HourlyPartitioner": _HOUR}.get(kind) or t.whole("partition.duration.ms")
    if whole is None or whole <= 0 or whole % 1000:
        t.tell("partition.duration.ms", "impossible", why="no period of whole seconds: by default it is a day here")
        whole = _DAY
    part["every"] = {_HOUR: "hour", _DAY: "day"}.get(whole) or duration_text(timedelta(milliseconds=whole))
    t.tell("partition.duration.ms", "carried", "partition.time.every")
    zone = t.get("timezone") or "UTC"
    try:
        if ZoneInfo(zone).key != zone:
            raise ValueError(zone)
    except (ValueError, OSError, KeyError):
        t.tell(
            "timezone",
            "impossible",
            why=f"{zone} is no IANA zone: UTC takes its place; write the city's, as Europe/Rome",
        )
        zone = "UTC"
    part["timezone"] = zone
    t.tell("timezone", "carried", "partition.time.timezone")
    locale = t.get("locale").replace("-", "_")
    default = "'year'=YYYY/'month'=MM/'day'=dd" + ("/'hour'=HH" if whole < _DAY else "")
    text = t.get("path.format") if kind not in ("DailyPartitioner", "HourlyPartitioner") else default
    try:
        part["format"], differences = joda.format_of(text or default, locale or "en_US")
        if differences or (differences := ("Joda's YYYY is Spark's yyyy",) if "Y" in text else ()):
            t.tell("path.format", "changed", "partition.time.format", "; ".join(differences))
        t.tell("path.format", "carried", "partition.time.format")
    except FormatError as error:
        part["format"], _ = joda.format_of(default, "en_US")
        t.tell("path.format", "impossible", "partition.time.format", f"{error}; {part['format']} takes its place")
    if locale and not locale.startswith("en"):
        part["locale"] = locale
    t.tell("locale", "carried", "partition.time.locale")
    return [part]


def _extractor(t: Translation, part: dict[str, str]) -> None:
    extractor = simple(t.get("timestamp.extractor", "Wallclock")).removesuffix("TimestampExtractor")
    if extractor == "RecordField":
        part["field"] = t.get("timestamp.field") or "timestamp"
        t.tell("timestamp.field", "carried", "partition.time.field", "a record whose time is none goes to quarantine")
    elif extractor in ("Record", "Wallclock"):
        part["extract"] = extractor.lower()
        t.tell("timestamp.field", "ignored", why=f"timestamp.extractor {extractor} does not ask for it")
    else:
        part["extract"] = "record"
        t.tell(
            "timestamp.extractor",
            "impossible",
            "partition.time.extract",
            "an extractor of your own: the record's own time takes its place; derive a column, and partition by it",
        )
    wallclock = extractor == "Wallclock"
    why = "one time for each batch" if wallclock else ""
    t.tell("timestamp.extractor", "changed" if wallclock else "carried", "partition.time.extract", why)


def trigger(t: Translation) -> None:
    """flush.size and the rotations: when a batch is cut."""
    scheduled, rotated = t.whole("rotate.schedule.interval.ms") or -1, t.whole("rotate.interval.ms") or -1
    every = min(scheduled if scheduled > 0 else rotated, _LONGEST)
    if every > 0:
        t.set("trigger.every", duration_text(timedelta(milliseconds=every)))
    if scheduled > 0:
        why = "exactly once stays; not aligned to midnight"
        t.tell("rotate.schedule.interval.ms", "changed", "trigger.every", why)
        t.tell("rotate.interval.ms", "ignored", why="a table has no open file; trigger.every holds")
    if rotated > 0:
        why = "by the clock, and not by the records' times: a table has no open file"
        t.tell("rotate.interval.ms", "changed", "trigger.every", why)
    size = t.whole("flush.size")
    if size is not None and size >= _FEWEST:
        t.set("trigger.max_records", min(size, 2**31 - 1))
        t.tell("flush.size", "changed", "trigger.max_records", "over all partitions, and not for each of them")
    why = "would hold the pipeline back; trigger.every decides, and `lakeingest maintain` makes files large"
    t.tell("flush.size", "changed", "trigger", f"fewer than {_FEWEST:,} records a commit {why}")


def errors(t: Translation) -> None:
    """errors.tolerance."""
    if t.get("errors.tolerance").lower() == "none":
        t.set("quarantine.max_refused", 0, "errors.tolerance none: a batch with a refused record is held.")
        t.tell("errors.tolerance", "changed", "quarantine.max_refused", "the batch is held, and nothing of it is lost")
