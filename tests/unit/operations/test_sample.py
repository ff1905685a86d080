"""What a sample says of a topic, and the file that is written from it: for any record, and any name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.oracle.examples import searched

from lakeingest.cli import from_topic
from lakeingest.cli import pipeline_file as commands
from lakeingest.config import PipelineConfig, file, yaml_text
from lakeingest.config.formats import JsonKey
from lakeingest.decode import json_diagnosis
from lakeingest.operations.init.sample import Sampled, inferred
from lakeingest.schema import ddl, json_values
from lakeingest.schema.json_values import AS_IT_IS
from lakeingest.schema.ledger import SchemaId


def of(*values: Any, keys: Any = None) -> Sampled:
    """A sample of JSON values."""
    return inferred([json.dumps(value).encode() for value in values], keys or [None] * len(values))


def types(*values: Any) -> str:
    """The type of a column `c` with these values."""
    return of(*({"c": value, "other": 1} for value in values)).columns_ddl.removesuffix("other BIGINT").strip(", ")


def config_of(found: Sampled, topic: str = "orders", **where: str) -> PipelineConfig:
    text = from_topic.text(topic, found, from_topic.Where(**where))
    return file.from_mapping(yaml_text.parse(text).data)


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ((1, 2), "c BIGINT"),
        ((1, 1.5), "c DOUBLE"),
        ((True, False), "c BOOLEAN"),
        ((True, 1), "c STRING"),
        ((2**63 - 1, -(2**63)), "c BIGINT"),
        ((2**63,), "c STRING"),
        ((1, "1"), "c STRING"),
        (("x",), "c STRING"),
        (("",), "c STRING"),
        (("2026-11-26",), "c DATE"),
        (("2026-11-26", ""), "c STRING"),
        (("2026-02-30",), "c STRING"),
        (("2026-11-26T04:00:00Z",), "c TIMESTAMP"),
        (("2026-11-26 04:00",), "c TIMESTAMP"),
        (("2026-11-26T04:00:00.123456789+05:30", "2026-11-26"), "c TIMESTAMP"),
        (("2026-11-26T04:00:00+19:00",), "c STRING"),
        (("9999-12-31T23:59:59-05:00",), "c STRING"),
        (("20261126",), "c STRING"),
        (("2026-W48-4",), "c STRING"),
        (("26.11.2026",), "c STRING"),
        ((None, 1), "c BIGINT"),
        ((None,), ""),
        (([],), ""),
        (({},), ""),
        (([1, None], [1.5]), "c ARRAY<DOUBLE>"),
        (([[1], []],), "c ARRAY<ARRAY<BIGINT>>"),
        (([1], "x"), "c STRING"),
        (({"a": 1}, {"b": "x", "a": None}), "c STRUCT<a: BIGINT, b: STRING>"),
        (({"a": 1}, 1), "c STRING"),
        (([{"a": 1}, {"b": [{}]}],), "c ARRAY<STRUCT<a: BIGINT>>"),
        (({"a.b": 1, "A`b": True},), "c STRUCT<`a.b`: BIGINT, `A``b`: BOOLEAN>"),
        (({f"k{n}": n for n in range(101)},), "c STRING"),
    ],
)
def test_a_column_takes_all_values_of_the_sample(values: tuple[Any, ...], column: str) -> None:
    """The type is the one of those that JSON has, or STRING, which takes any."""
    assert types(*values) == column


def test_the_deepest_is_text() -> None:
    """What is nested without end is kept as JSON."""
    value: Any = 1
    for _ in range(900):
        value = {"a": value}
    found = of({"c": value, "d": 1})
    assert found.columns_ddl.count("STRUCT<") < 30
    assert "a: STRING" in found.columns_ddl
    # Deeper than Python reads: no JSON that could be told of, and no error.
    assert inferred([b'{"a":' * 100_000], [None]).value_format == "string"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("_id", "names that begin with _"),
        ("_offset", "names that begin with _"),
        ("a b", "is no name for a Delta column"),
        ("", "is no name for a Delta column"),
        ("a=b", "is no name for a Delta column"),
        ("${HOME}", "is no name for a Delta column"),
        ("a\nb", "not printable"),
        ("a\x85b", "not printable"),
        ("a\u2028b", "not printable"),
        ("\u202egnp", "not printable"),
        ("\ud800", "not printable"),
        ("C", "it differs from c in upper and lower case alone"),
        ("x" * 256, "at most 255"),
    ],
)
def test_a_name_that_no_column_can_have_is_left_out(name: str, why: str) -> None:
    """With a reason, which stands in the file in one line; the others stay."""
    found = of({"c": 1, name: 2})
    assert found.columns_ddl == "c BIGINT"
    (reason,) = found.reasons["schema.columns"]
    assert reason.startswith("Left out: ")
    assert why in reason
    assert config_of(found).schema_.columns == "c BIGINT"


@pytest.mark.parametrize(
    "name", ["a.b", "`", "``", "q\"'", "#x", "- a", "名前", "a:", "not", "table", "1st", "$x", "a--b", "/*", "\\"]
)
def test_any_other_name_comes_out_right(name: str) -> None:
    """Whatever YAML or SQL would make of it."""
    if " " in name:
        name = name.replace(" ", "")
    columns = config_of(of({name: 1, "c": "x"})).columns
    assert [(c.name, str(c.type)) for c in columns] == [(name, "bigint"), ("c", "string")]


@pytest.mark.parametrize(
    ("values", "column", "quotes", "note"),
    [
        ([1.5] * 99 + ["2.5"], "c DOUBLE", True, "Numbers in quotes: c has them in 1 of 100 values"),
        ([1] * 9 + ["2"], "c BIGINT", True, "Numbers in quotes: c has them in 1 of 10 values"),
        ([1] * 9 + ["2e3"], "c DOUBLE", True, "1 of 10"),
        ([[1.5] * 9, ["2"]], "c ARRAY<DOUBLE>", True, "Numbers in quotes: c has them in 1 of 10 values"),
        (
            [{"a": 1}] * 9 + [{"a": "1"}],
            "c STRUCT<a: BIGINT>",
            True,
            "Numbers in quotes: c.a has them in 1 of 10 values",
        ),
        ([1] * 8 + ["2", "3"], "c STRING", False, ""),
        (["01", "02"], "c STRING", False, ""),
        ([1.5] * 99 + ["n/a"], "c STRING", False, "Nearly numbers: c is one in 99 of 100 values"),
        ([1] * 99 + [2**63], "c STRING", False, "Nearly numbers: c is one in 99 of 100 values"),
        ([1_700_000_000_000, 1_700_000_000_001], "c TIMESTAMP", False, "c could be that in each of 2 values"),
        ([1_700_000_000_000, 17], "c BIGINT", False, ""),
        ([1_700_000_000_000] * 9 + ["17"], "c BIGINT", True, "1 of 10"),
        ([1_700_000_000_000, "2026-11-26"], "c STRING", False, ""),
    ],
)
def test_what_nearly_all_values_are(values: list[Any], column: str, quotes: bool, note: str) -> None:
    """A number in 99 of 100 records became a STRING, and epoch milliseconds a BIGINT, without a word."""
    found = of(*({"c": value} for value in values))
    assert (found.columns_ddl, found.numbers_in_quotes) == (column, quotes)
    assert note in " ".join(found.reasons["schema.columns"])
    made = config_of(found)
    assert made.decode.value.model_dump()["numbers_in_quotes"] == quotes
    keyed = inferred([b"{}"], [json.dumps({"c": value}).encode() for value in values])
    assert isinstance(key := config_of(keyed).decode.key, JsonKey)
    assert key.numbers_in_quotes == quotes


def test_milliseconds_are_a_time_to_partition_by() -> None:
    """As a time that is a text is."""
    days = [1_700_000_000_000 + n * 86_400_000 for n in range(40)]
    found = of(*({"at": at} for at in days))
    assert (found.time_field, found.every) == ("at", "month")
    assert config_of(found).partition[0].field == "at"


@pytest.mark.parametrize(
    ("values", "format", "reason"),
    [
        ([b'{"a":1}'] * 9 + [b"{"], "json", "9 of 10 values are JSON objects; a run would refuse the others"),
        ([b'{"a":1}'] * 8 + [b"{"] * 2, "string", "10 of 10 values are text"),
        ([b"[1]", b"7", b"x"], "string", "3 of 3 values are text in UTF-8, and no JSON objects"),
        ([b'{"a":NaN}'], "string", "text"),
        ([b'{"a":1}{"a":2}'], "string", "text"),
        ([b'{"_a":1}', b'{"_a":2}'], "string", "No field of theirs fits a column"),
        ([b"{}"], "string", "No field of theirs fits a column"),
        ([b"\xff\x00"], "bytes", "neither text in UTF-8"),
        ([b"\x1f\x8b\x08abc"], "bytes", "neither text in UTF-8"),
        ([b"a\x00b"], "bytes", "neither text in UTF-8"),
        ([b"\x03\x05" + bytes(16)] * 4, "bytes", "registry: {glue: {}}"),
        ([b"\x03\x07" + bytes(16)], "bytes", "neither text in UTF-8"),
        ([None, None], "bytes", "2 of 2 records have no value"),
        ([], "bytes", "There is no record"),
        ([b""], "string", "text"),
        ([(-5).to_bytes(8, "big", signed=True)], "bytes", "neither"),
        ([(7).to_bytes(8, "big")], "bytes", "neither"),
    ],
)
def test_the_format_is_the_one_of_nearly_all(values: list[bytes | None], format: str, reason: str) -> None:
    """A few broken records are what quarantine is for."""
    found = inferred(values, [None] * len(values))
    assert found.value_format == format
    assert any(reason in each for each in found.reasons["decode.value"])
    assert config_of(found).decode.value.format == format


def framed(id: int, payload: bytes = b"\x02a") -> bytes:
    return b"\x00" + id.to_bytes(4, "big") + payload


@pytest.mark.parametrize(
    ("kinds", "format"),
    [
        ({7: "AVRO", 9: "AVRO"}, "avro"),
        ({7: "PROTOBUF"}, "protobuf"),
        ({9: "JSON"}, "json_schema"),
        ({7: "THRIFT"}, "bytes"),
        ({}, "bytes"),
    ],
)
def test_the_registry_says_what_its_header_stands_for(kinds: dict[int, str], format: str) -> None:
    """Without an answer nothing is claimed, and the file says what to write if it was one."""
    values = [framed(7)] * 5 + [framed(9)] * 4
    found = inferred(values, values, kinds.get)
    assert (found.value_format, found.key_format) == (format, format)
    said = " ".join(found.reasons["decode.value"])
    assert ("write decode.value.format: avro, protobuf or json_schema" in said) is (format == "bytes")
    config_of(found, registry="http://registry:8081")


def test_the_registry_is_asked_of_few_ids() -> None:
    """Bytes that begin with 0 by chance have as many ids as records."""
    asked: list[int] = []
    inferred([framed(n) for n in range(1, 400)], [None], asked.append)
    assert len(asked) == 20


@pytest.mark.parametrize(
    ("keys", "format", "columns"),
    [
        ([b"k1", b"k2"], "string", ""),
        ([b"12", b"13"], "string", ""),
        ([None, None], "bytes", ""),
        ([b"\x00\x00\x00\x00\x00\x00\x00\x07"], "bytes", ""),
        ([b'{"id": 1, "_x": "a"}'], "json", "id BIGINT, _x STRING"),
        ([b"{}"], "string", ""),
    ],
)
def test_the_key_has_a_format_of_its_own(keys: list[bytes | None], format: str, columns: str) -> None:
    """And columns, where it is JSON."""
    found = inferred([b'{"a":1}'] * len(keys), keys)
    assert (found.key_format, found.key_columns_ddl.replace("`", "")) == (format, columns)
    key = config_of(found).decode.key
    assert key.format == format
    assert not isinstance(key, JsonKey) or ddl.parse(key.columns) == ddl.parse(found.key_columns_ddl)


def test_what_a_sample_cannot_be_sure_of_is_told() -> None:
    """Where the types are there; names are no types."""
    assert of({"double": 1, "timestamp": "x"}).reasons["schema.columns"] == ()
    notes = of({"a": [{"b": 1.5}], "at": "2026-11-26 04:00"}).reasons["schema.columns"]
    assert [note.split()[-1] for note in notes] == ["money", "otherwise"]


def test_a_field_that_is_a_time_in_each_record_is_the_partition() -> None:
    """A timestamp before a date; one that is missing once will not do, as such a record would be refused."""
    days = [
        {"d": "2026-11-01", "maybe": f"2026-11-{n:02}" if n else None, "at": f"2026-11-{n + 1:02} 10:00"}
        for n in range(9)
    ]
    found = of(*days)
    assert (found.time_field, found.every) == ("at", "day")
    assert "touch 9 days; so may be d, maybe; a record without it goes to quarantine" in found.reasons["partition"][0]
    (partition,) = config_of(found).partition
    assert partition.field == "at"


@pytest.mark.parametrize(("count", "field", "every"), [(31, "at", "day"), (62, "at", "month"), (2000, None, "day")])
def test_a_time_that_would_make_many_partitions_will_not_do(count: int, field: str | None, every: str) -> None:
    """As a date of birth: months then, or the record's own time."""
    values = [{"at": f"{1990 + n // 336}-{n // 28 % 12 + 1:02}-{n % 28 + 1:02}"} for n in range(count)]
    found = of(*values)
    assert (found.time_field, found.every) == (field, every)
    (partition,) = config_of(found).partition
    assert (partition.field, partition.every) == (field, every)


def test_a_partition_that_the_file_may_not_have_is_left_out() -> None:
    """Where the records have a column of the partition's name."""
    assert config_of(of({"day": 1})).partition == ()
    assert config_of(of({"other": 1})).partition[0].by == "time"


@pytest.mark.parametrize(
    "topic", ["orders", "true", "No", "1e3", "0x10", "_hidden", "a.b-c_d", "...", "x" * 249, "-", "12:30"]
)
def test_any_topic(topic: str) -> None:
    """YAML takes some for another thing than a text, and a name cannot begin with any of a topic's characters."""
    if topic == "12:30":
        with pytest.raises(Exception, match="not a Kafka topic's name"):
            config_of(of({"a": 1}), topic)
        return
    made = config_of(of({"a": 1}), topic)
    assert made.source.topics == (topic,)
    assert made.name in topic or made.name == "pipeline"


NAMES = st.text(max_size=12) | st.sampled_from(["a", "A", "_a", "a.b", "day", "null", "`", "a,b", "é", "e\u0301"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.dates().map(str)
    | st.datetimes().map(str)
    | st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat())
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
OBJECTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=5), min_size=1, max_size=5)


@searched(100)
@given(OBJECTS)
@example([{"c": 1}, {"c": 1.5}, {"C": "x"}])
@example([{"a": {"b": 1}}, {"a": {"B": "x"}}])
@example([{"<": False, "0": False}])
@example([{"a": 1}] * 9 + [{"a": "+1."}])
@example([{"a": 1}] * 9 + [{"a": "9" * 400}])
@example([{"a": 1_700_000_000_000}])
def test_the_file_is_good_and_takes_the_sample(objects: list[dict[str, Any]]) -> None:
    """Whatever the records hold: `check` finds no mistake, and no sampled value is of another type than its column."""
    values = [json.dumps(each).encode() for each in objects]
    found = inferred(values, values)
    made = config_of(found)
    if found.value_format != "json":
        return
    assert made.schema_.columns is not None
    struct = json.loads(ddl.to_json(made.columns))
    for value in values:
        texts = replace(AS_IT_IS, quotes=found.numbers_in_quotes)
        assert list(json_diagnosis.faults_of(json_values.read(value), struct, texts)) == []


@searched(100)
@given(st.lists(st.binary(max_size=40) | st.none(), max_size=5))
def test_any_bytes(values: list[bytes | None]) -> None:
    """None ends in an error."""
    config_of(inferred(values, values[::-1]))


OPTIONS = {"security.protocol": "SASL_SSL", "sasl.username": "a: b#", "sasl.password": "${SECRET}"}


def test_what_is_written_is_what_check_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """From the command's own file: brokers and registry too, and hostile names only in comments and quotes."""
    monkeypatch.setenv("SECRET", "hush")
    found = of({"a": 1, "x\n  y: z": 2, "${HOME}": 3, "#": "b"})
    text = from_topic.text(
        "orders", found, from_topic.Where("broker:9092,[::1]:9092", "https://registry:8081", OPTIONS)
    )
    (tmp_path / "p.yaml").write_text(text, encoding="utf-8")
    commands.check([tmp_path / "p.yaml"])
    made = file.read(tmp_path / "p.yaml", os.environ)
    given = {name: value.get_secret_value() for name, value in made.source.options.items()}
    assert given == {**OPTIONS, "sasl.password": "hush"}
    assert (made.source.bootstrap_servers, made.registry.url) == ("broker:9092,[::1]:9092", "https://registry:8081")
    assert [c.name for c in made.columns] == ["a", "#"]
    assert max(map(len, text.splitlines())) <= 120


def test_inference_needs_no_spark() -> None:
    """Whoever writes a file need not have it installed, and nobody waits for it."""
    code = (
        "import sys; from lakeingest.operations.init.sample import inferred; from lakeingest.cli import from_topic;"
        "from_topic.text('t', inferred([b'{\"a\": 1}'], [None]), from_topic.Where());"
        "sys.exit(any(name in sys.modules for name in ('pyspark', 'confluent_kafka')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("value", "format"),
    [(b"\0\0\0\0\1\x02\xff", "bytes"), (b'{"a": 1}', "json"), (bytes((3, 0)) + b"\xff" * 20, "bytes")],
)
@pytest.mark.parametrize("kind", ["AVRO", None])
def test_a_header_names_the_schema(value: bytes, format: str, kind: str | None) -> None:
    """By its id or by its GUID; the payload's first bytes are none, whether the registry knows the schema or not."""
    guid = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    registered: dict[SchemaId, str | None] = {guid: kind, 5: kind, 1: "JSON"}
    headers: list[dict[str, bytes | None]] = [
        {"__value_schema_id": b"\1" + bytes(range(16)), "other": b""},
        {"__value_schema_id": b"\0\0\0\0\5"},
        {"__key_schema_id": b"\0\0\0\0\5"},
    ]
    result = inferred([value] * 2 + [None], [None] * 2 + [b"\0\0\0\0\1x"], registered.get, headers)
    assert result.value_format == ("avro" if kind else format)
    reasons = {side: " ".join(result.reasons[f"decode.{side}"]) for side in ("key", "value")}
    assert "2 of 3 records name the schema in their header __value_schema_id" in reasons["value"]
    assert "1 of 3 records name the schema in their header __key_schema_id" in reasons["key"]
    assert (f"The registry has schema ids 5, {guid} as AVRO" in reasons["value"]) is bool(kind)
