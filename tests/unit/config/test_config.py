"""The values of a pipeline file: defaults, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from lakeingest.config import PipelineConfig, uses_registry
from lakeingest.config.durations import duration_text

COLUMNS = "a INT, b BIGINT, t TIMESTAMP, d DATE, s STRING, f DOUBLE, x STRUCT<y: BOOLEAN>"


def pipeline(**parts: Any) -> PipelineConfig:
    """A pipeline with the given parts in place of a small file's."""
    plain = {
        "name": "flights",
        "source": {"topics": ["flights"]},
        "table": {"path": "s3a://lake/flights"},
        "schema": {"columns": COLUMNS},
    }
    return PipelineConfig.model_validate({**plain, **parts})


def test_a_small_file_has_careful_defaults() -> None:
    """Name, topics, columns and a path are enough."""
    small = pipeline()
    assert small.quarantine.path == "s3a://lake/flights_quarantine"
    assert (small.source.start, small.decode.on_null, small.table.compression) == ("earliest", "quarantine", "zstd")
    assert small.decode.max_bytes == 2**24
    assert (small.trigger.every, small.partition, small.gate) == (timedelta(minutes=1), (), None)


def test_text_and_bytes_have_one_column() -> None:
    """Without declared columns the value is one, called value."""
    kinds = {f: pipeline(decode={"value": {"format": f}}, schema={}).columns for f in ("string", "bytes")}
    assert {f: [(c.name, str(c.type)) for c in columns] for f, columns in kinds.items()} == {
        "string": [("value", "string")],
        "bytes": [("value", "binary")],
    }


REGISTERED = ("avro", "protobuf", "json_schema")


@pytest.mark.parametrize("format", REGISTERED)
def test_formats_of_the_registry_leave_the_columns_to_it(format: str) -> None:
    """No columns are declared, so no partition by a field can be called wrong."""
    part = {"format": format, "subject": "topic_record"}
    made = pipeline(decode={"value": part, "key": part}, schema={}, partition=[{"by": "field", "field": "z"}])
    assert made.columns == ()
    assert uses_registry(made.decode.value)
    assert uses_registry(made.decode.key)


@pytest.mark.parametrize(
    ("format", "given", "effective"),
    [
        *((format, None, "BACKWARD") for format in REGISTERED),
        ("json", None, "FORWARD"),
        ("string", None, "NONE"),
        ("bytes", None, "NONE"),
        ("json", "BACKWARD", "BACKWARD"),
        ("avro", "NONE", "NONE"),
        ("protobuf", "FULL", "FULL"),
    ],
)
def test_compatibility_follows_the_format(format: str, given: str | None, effective: str) -> None:
    """The file's word counts, and without one the schema of records does, where they bring one."""
    schema = {"compatibility": given} | ({"columns": COLUMNS} if format == "json" else {})
    assert pipeline(decode={"value": {"format": format}}, schema=schema).compatibility == effective


def test_a_registry_is_the_stacks_unless_named() -> None:
    """One URL or several, and half a minute of patience."""
    assert (pipeline().registry.url, pipeline().registry.wait) == (None, timedelta(seconds=30))
    assert not any(uses_registry(part) for part in (pipeline().decode.value, pipeline().decode.key))
    named = pipeline(registry={"url": "https://a:8081/sr, http://[::1]:8081", "wait": "1 minute"}).registry
    assert (named.url, named.wait) == ("https://a:8081/sr, http://[::1]:8081", timedelta(minutes=1))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90 seconds", 90), ("1 second", 1), ("15 Minutes", 900), ("2hours", 7200), ("1 day", 86400)),
        *(("1 week", 604800), ("500ms", 0.5), ("500 msecs", 0.5), ("2s", 2), ("90 sec", 90), ("1m", 60)),
        *(("1 min", 60), ("5 MINS", 300), ("2h", 7200), ("1 hr", 3600), ("1d", 86400), ("2w", 1209600)),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    """A duration is a number and a unit, written out or short as everywhere else."""
    assert pipeline(trigger={"every": text}).trigger.every.total_seconds() == seconds


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("0s", 0), ("0 minutes", 0), ("2m", 120), ("500ms", 0.5)])
def test_a_wait_may_be_none(text: str, seconds: float) -> None:
    """Not to wait at all needs no unit."""
    assert pipeline(retry={"wait": text}).retry.wait.total_seconds() == seconds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((timedelta(milliseconds=500), "500 milliseconds"), (timedelta(seconds=90), "90 seconds")),
        *((timedelta(hours=1), "1 hour"), (timedelta(weeks=1), "7 days"), (timedelta(), "0 days")),
    ],
)
def test_a_duration_is_shown_as_it_is_written(value: timedelta, text: str) -> None:
    """In its largest unit, so that no half a second becomes none."""
    assert duration_text(value) == text


def test_a_partition_is_no_part_of_a_second() -> None:
    """Its name tells seconds, so that two periods of one second would be one partition."""
    with pytest.raises(ValidationError, match="write one of whole seconds"):
        pipeline(partition=[{"by": "time", "every": "500ms"}])


@pytest.mark.parametrize("value", [True, 1.0])
@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (lambda value: {"trigger": {"max_records": value}}, "whole number"),
        (lambda value: {"decode": {"max_bytes": value}}, "whole number"),
        (lambda value: {"quarantine": {"max_refused": value}}, "neither a number of records nor a share of them"),
        (lambda value: {"source": {"topics": ["a"], "start": {"a": {0: value}}}}, "no place to start"),
        (lambda value: {"source": {"topics": ["a"], "start": {"a": {value: 0}}}}, "no place to start"),
        (lambda value: {"transform": [{"mask": {"s": {"last": value}}}]}, "not a mask"),
    ],
)
def test_true_is_no_number(parts: Any, said: str, value: Any) -> None:
    """Nor is half a record: {last: true} showed one character, and an offset of 1.0 was taken for 1."""
    with pytest.raises(ValidationError, match=said):
        pipeline(**parts(value))


@pytest.mark.parametrize("given", [{}, {"max_refused": "1%"}])
def test_a_quarantine_without_a_path_is_beside_the_table(given: dict[str, Any]) -> None:
    """A failure budget is no reason to say where the quarantine lies."""
    made = pipeline(table={"path": "s3a://lake/flights/"}, quarantine=given)
    assert made.quarantine.path == "s3a://lake/flights_quarantine"
    assert made.paths == ("s3a://lake/flights/", "s3a://lake/flights_quarantine", "s3a://lake/flights_removed")
    assert made.quarantine.max_refused == given.get("max_refused")


@pytest.mark.parametrize(
    "text", ["", "5", "0 days", "-1 day", "1.5 hours", "fortnight", "99999999999999 days", "5 years", "1M", "0s", "٣s"]
)
def test_what_is_no_duration(text: str) -> None:
    """Nothing is guessed: no unit, no duration."""
    with pytest.raises(ValidationError):
        pipeline(trigger={"every": text})


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"name": "a b"}, "not a name"),
        ({"source": {"topics": []}}, "at least 1"),
        ({"source": {"topics": ["a b"]}}, "not a Kafka topic"),
        ({"source": {"topics": [".."]}}, "not a Kafka topic"),
        ({"source": {"topics": ["a" * 250]}}, "not a Kafka topic"),
        ({"source": {"topics": ["a", "a"]}}, "the same topic twice: a"),
        ({"source": {"topics": ["a"], "bootstrap_servers": "http://h:1"}}, "not a list of brokers"),
        ({"source": {"topics": ["a"], "bootstrap_servers": "h:70000"}}, "not a list of brokers"),
        ({"schema": {}}, "schema.columns: required"),
        ({"schema": {"columns": "_topic STRING"}}, "_topic: names that begin with _"),
        ({"schema": {"columns": "_mine STRING"}}, "_mine: names that begin with _"),
        ({"schema": {"columns": "a INT, A INT"}}, "A: declared twice"),
        ({"decode": {"value": {"format": "string"}}}, "schema.columns: not for decode.value.format string"),
        ({"decode": {"value": {"format": "bytes"}}}, "schema.columns: not for decode.value.format bytes"),
        ({"decode": {"on_null": "write"}, "schema": {"columns": "a INT NOT NULL"}}, "NOT NULL is declared for a"),
        ({"decode": {"key": {"format": "json", "columns": "id INTT"}}}, "did you mean INT?"),
        ({"decode": {"max_bytes": 0}}, "greater than 0"),
        ({"decode": {"max_bytes": 100 * 2**20 + 1}}, "less than or equal to 104857600"),
        ({"partition": [{"by": "field", "field": "z"}]}, '"z" is not among the columns'),
        ({"partition": [{"by": "field", "field": "a..b"}]}, "not a field"),
        ({"partition": [{"by": "field", "field": "f"}]}, '"f" is double, which cannot be partitioned by field'),
        ({"partition": [{"by": "field", "field": "t"}]}, '"t" is timestamp'),
        ({"partition": [{"by": "time", "field": "f"}]}, '"f" is double, which cannot be partitioned by time'),
        ({"partition": [{"by": "time", "extract": "field"}]}, "partition.0.field: required by extract: field"),
        ({"partition": [{"by": "time", "extract": "record", "field": "t"}]}, '"record" takes no field'),
        ({"partition": [{"by": "time", "extract": "wallclock", "field": "t"}]}, '"wallclock" takes no field'),
        ({"partition": [{"by": "time", "timezone": "Europe/Berln"}]}, "did you mean Europe/Berlin?"),
        ({"partition": [{"by": "time", "timezone": "localtime"}]}, "not an IANA time zone"),
        ({"partition": [{"by": "time", "timezone": "../UTC"}]}, "not an IANA time zone"),
        ({"decode": {"value": {"format": "avro"}}}, "schema.columns: not for decode.value.format avro, whose columns"),
        ({"decode": {"value": {"format": "protobuf"}}}, "schema.columns: not for decode.value.format protobuf"),
        ({"decode": {"value": {"format": "avro", "subject": "name"}}}, "'topic', 'record' or 'topic_record'"),
        ({"decode": {"value": {"format": "avro", "schema_file": "f.avsc"}}}, "not read yet"),
        ({"decode": {"value": {"format": "protobuf", "timezone": "UTC"}}}, "timezone"),
        (
            {"decode": {"value": {"format": "bytes"}}, "schema": {"compatibility": "FULL"}},
            "schema.compatibility: not for",
        ),
        ({"schema": {"columns": "a INT", "compatibility": "full"}}, "'BACKWARD', 'FORWARD' or 'FULL'"),
        ({"schema": {"columns": "a INT", "names": "safe"}}, "schema.names: not for decode.value.format json"),
        (
            {"schema": {"columns": "a INT", "unsupported": "refuse"}},
            "schema.unsupported: not for decode.value.format json",
        ),
        (
            {"decode": {"value": {"format": "avro"}}, "schema": {"names": {"a b": "a b"}}},
            "'a b' is no name for a column",
        ),
        ({"decode": {"value": {"format": "avro"}}, "schema": {"names": {"a": "_offset"}}}, "'_offset' is no name for"),
        (
            {"schema": {"columns": "a STRUCT<b: INT FROM 'c'>", "compatibility": "BACKWARD"}},
            "a.b: FROM needs schema.compatibility FORWARD",
        ),
        (
            {"decode": {"key": {"format": "json", "columns": "id INT FROM 'ID'"}}},
            "FROM names a field of the value alone",
        ),
        *(
            ({"registry": {"url": url}}, "not an http or https URL")
            for url in (
                "registry:8081",
                "ftp://registry",
                "http://",
                "http://r:x",
                "http://r?a=b",
                "http://r,",
                "http://[r",
            )
        ),
        *(
            ({"registry": {"url": url}}, "holds credentials; write them as basic.auth.user.info in registry.options")
            for url in ("http://user:hunter2@r", "https://token@r", "http://r,http://u:p@r", "u:p/w@r")
        ),
        ({"registry": {"wait": "never"}}, "not a duration"),
        ({"registry": {"options": {"url": "http://r"}}}, "url (write it as registry.url); drop it"),
        ({"registry": {"options": {"max.retries": "9"}}}, "max.retries (registry.wait bounds it); drop it"),
        ({"quarantine": {"path": "s3a://lake/flights/"}}, "are the same or lie within each other"),
        ({"quarantine": {"path": "s3a://lake/flights/refused"}}, "are the same or lie within each other"),
        ({"table": {"path": " "}}, "empty; write a path"),
        ({"table": {"path": "s3a://lake"}}, "a bucket without a path"),
        ({"trigger": {"max_records": 0}}, "greater than 0"),
        ({"tirgger": {}}, "tirgger"),
    ],
)
def test_what_is_refused(parts: dict[str, Any], said: str) -> None:
    """Each value that could not work is refused before anything runs."""
    with pytest.raises(ValidationError) as caught:
        pipeline(**parts)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "partition",
    [
        *({"by": "time", "field": name} for name in ("t", "d", "a", "b", "s")),
        *({"by": "field", "field": name} for name in ("a", "b", "s", "x.y")),
        {"by": "time", "every": "15 minutes"},
        {"by": "kafka_partition"},
    ],
)
def test_partitions_that_are_allowed(partition: dict[str, Any]) -> None:
    """Times from timestamps, dates, milliseconds and text; values of integers, text and booleans."""
    assert pipeline(partition=[partition]).partition


def test_secrets_stay_masked() -> None:
    """Neither repr nor a pydantic error tells a secret."""
    secret = {"secret_key": "hunter2", "options": {"fs.s3a.x": "hunter2"}}
    assert "hunter2" not in repr(pipeline(storage=secret))
    assert "hunter2" not in repr(pipeline(registry={"options": {"basic.auth.user.info": "me:hunter2"}}))
    with pytest.raises(ValidationError) as caught:
        pipeline(storage={**secret, "region": ["hunter2"]})
    assert "hunter2" not in str(caught.value)


def test_a_pipeline_is_frozen() -> None:
    """Nobody changes a pipeline that runs."""
    with pytest.raises(ValidationError):
        pipeline().name = "other"
