"""A pipeline file, a schema or a record cannot run code, read files, reach other addresses, or end the process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kit
import pytest
import registry_kit
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession

from lakeingest import config
from lakeingest.config import file
from lakeingest.decode import inferred
from lakeingest.decode.json_diagnosis import diagnose
from lakeingest.decode.readers import read
from lakeingest.delta.receipt import Counts
from lakeingest.errors import PipelineFileError
from lakeingest.gate import suite as gate_suite
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline
from lakeingest.schema import ddl, model
from lakeingest.schema.formats import defaults
from lakeingest.schema.model import Schema, SchemaError
from lakeingest.spark.types import struct
from lakeingest.testing.process import Process

GOOD = """\
name: flights
source: {topics: [flights]}
schema: {columns: "flight INT, carrier STRING"}
table: {path: "s3a://lake/flights"}
"""
SLOW_S = 10
"""Of this process alone, however busy the machine is; a bomb takes minutes, or all of memory."""


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < SLOW_S


# The pipeline file


def problems(path: Path, text: str, environment: dict[str, str] | None = None) -> list[str]:
    """What is said of a file, without its folder."""
    (path / "f.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(PipelineFileError) as caught:
        file.read(path / "f.yaml", environment or {})
    return [problem.removeprefix(f"{path}/") for problem in caught.value.problems]


LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
MERGES = "m0: &m0 {a: 1}\n" + "".join(f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}]}}\n" for i in range(1, 10))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("x: !!python/object/apply:os.system ['exit 1']\n", "f.yaml:5: not YAML", id="object"),
        pytest.param("x: !!python/name:os.system\n", "f.yaml:5: not YAML", id="name"),
        pytest.param("gate: !include /etc/passwd\n", "f.yaml:5: not YAML", id="include"),
        pytest.param("gate: !!mine x\n", "f.yaml:5: not YAML", id="unknown tag"),
        pytest.param(LAUGHS, "an alias's (*name) counted wherever", id="billion laughs"),
        pytest.param(MERGES, "an alias's (*name) counted wherever", id="merges"),
        pytest.param("x: &x [*x]\n", "f.yaml:5: not understood here: an alias", id="cycle"),
        pytest.param("name: b\n", "f.yaml:5: name: stands twice, first in line 1", id="twice"),
        pytest.param(f"x: {'[' * 60}{']' * 60}\n", "f.yaml:5: nested deeper", id="deep"),
        pytest.param(f"x: {'[' * 500}", "nested deeper", id="very deep"),
        pytest.param("x: " + "[\n" * 50_000, "nested deeper", id="deep lines"),
        pytest.param(f"x: {'y' * 10_000_000}\n", "f.yaml:1: larger than", id="huge text"),
        pytest.param("".join(f"x{i}: 1\n" for i in range(6_000)), "more than 10,000 values", id="wide"),
        pytest.param(f"trigger: {{max_records: {'9' * 5000}}}\n", "not YAML", id="long number"),
        pytest.param(f"trigger: {{max_records: 0x{'f' * 5000}}}\n", "thousands of digits", id="long hex"),
        pytest.param("trigger: {max_records: 1e999}\n", "f.yaml:5: trigger.max_records: Infinity", id="infinity"),
    ],
)
def test_a_file_that_is_a_bomb_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    """Tags run nothing, aliases multiply nothing, and nothing is too deep or too large for the reader itself."""
    assert said in problems(tmp_path, GOOD + text)[0]


COLUMNS = {
    "deep": "x " + "ARRAY<" * 3000 + "INT" + ">" * 3000,
    "digits": f"x DECIMAL({'9' * 5000},2)",
    "brackets": "x STRUCT<" + "(" * 50_000,
}


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_columns_that_are_a_bomb_are_refused(tmp_path: Path, columns: str) -> None:
    """The reader of DDL is no deeper than a table may be."""
    assert problems(tmp_path, GOOD.replace("flight INT", columns))[0].startswith("f.yaml:3: schema.columns: ")


BAD_NAMES = ["../x", "a/b", "a\0b", "a\nb", "a'b", 'a"b', "a`b", "a;b", "a b", "", "..", "x` INT); DROP TABLE y; --"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize(
    "place",
    [
        ("name",),
        ("source", "topics", 0),
        ("table", "name"),
        ("partition", 0, "name"),
        ("schema", "columns"),
    ],
    ids=lambda place: ".".join(map(str, place)),
)
def test_a_name_holds_nothing_but_a_name(place: tuple[Any, ...], name: str) -> None:
    """Names become SQL, folders, log files and topics, so what would end a quote or leave a folder is refused."""
    values: dict[str, Any] = {
        "name": "a",
        "source": {"topics": ["a"]},
        "table": {"path": "/tmp/a"},
        "schema": {"columns": "c INT"},
        "partition": [{"by": "field", "field": "c", "name": "d"}],
    }
    part: Any = values
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = name if place[0] != "schema" else f"`{name.replace('`', '``')}` INT"
    if place[0] == "schema" and name in ("../x", "a/b", "a'b", 'a"b', "a`b", ".."):
        assert file.from_mapping({**values, "partition": []}).columns[0].name == name
        return
    with pytest.raises(PipelineFileError):
        file.from_mapping(values)


@pytest.mark.parametrize("name", ["delta.x", "delta.`/tmp/x`", "x USING csv LOCATION '/etc' --", "a.b.c.d", "a.", "é"])
def test_a_table_is_registered_under_a_name_alone(tmp_path: Path, name: str) -> None:
    """The name is pasted into SQL."""
    text = GOOD.replace('flights"}', f'flights", name: {json.dumps(name)}}}')
    assert problems(tmp_path, text)[0].startswith("f.yaml:4: table.name: ")


@pytest.mark.parametrize("option", ["table", "quarantine"])
@pytest.mark.parametrize(
    "path",
    ["s3a://lake/a'b", "s3a://lake/a`b", "s3a://lake/../b", "/tmp/a/../../etc", "/tmp/a\0", "/tmp/a\nb", "/tmp/*",
     "s3a://lake/{a,b}", "http://169.254.169.254/x/y", "HTTPS://h/x/y", "s3a://lake/$${env:HOME}", "/a; DROP", "/a\\b"],
)  # fmt: skip
def test_a_path_is_a_path_alone(tmp_path: Path, option: str, path: str) -> None:
    """Paths are pasted into SQL, where Spark also fills in variables; globs and ways upwards mean other folders."""
    written = f"{option}: {{path: {json.dumps(path)}}}\n"
    text = GOOD.replace('table: {path: "s3a://lake/flights"}\n', written) if option == "table" else GOOD + written
    assert f"{option}.path: " in problems(tmp_path, text)[0]


@pytest.mark.parametrize(
    "text",
    [
        "storage: {options: {spark.sql.catalog.x: y}}\n",
        "storage: {options: {'fs.s3a.x y': z}}\n",
        "source: {topics: [a], options: {plugin.library.paths: /tmp/x.so}}\n",
        "source: {topics: [a], options: {sasl.kerberos.kinit.cmd: reboot}}\n",
        "source: {topics: [a], options: {ssl.engine.location: /tmp/x.so}}\n",
        "source: {topics: [a], options: {sasl.jaas.config: com.sun.security.auth.module.JndiLoginModule required;}}\n",
        "registry: {url: 'file:///etc/passwd'}\n",
        "source: {topics: [a], options: {oauth_cb: x}}\n",
        "source: {topics: [a], options: {default.topic.config: x}}\n",
    ],
)
def test_options_load_no_program(tmp_path: Path, text: str) -> None:
    """Client options that load libraries, run commands or fetch code are refused, and so are Spark's own settings."""
    plain = GOOD.replace("source: {topics: [flights]}\n", "") if text.startswith("source") else GOOD
    (said,) = problems(tmp_path, plain + text)
    assert "options: " in said or "registry.url: " in said


@pytest.mark.parametrize("named", ["/dev/zero", "x\0y", "pipe", ".", "missing", "large"])
@pytest.mark.parametrize("option", ["schema_file", "suite"])
def test_files_that_a_file_names_are_files(tmp_path: Path, named: str, option: str) -> None:
    """A device, a pipe, a folder or what is far too large is refused, not read for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b" " * 5_000_000)
    path = json.dumps(named)
    if option == "suite":
        with pytest.raises(PipelineFileError):
            gate_suite.load(config.Gate(suite=str(tmp_path / named)), ())
        return
    plain = GOOD.replace('schema: {columns: "flight INT, carrier STRING"}\n', "")
    text = f"{plain}decode: {{value: {{format: avro, schema_file: {path}}}}}\n"
    assert problems(tmp_path, text)[0].startswith("f.yaml:4: decode.value.schema_file: ")


@pytest.mark.parametrize("suite", ["[" * 100_000, '{"name": ' + "9" * 5000 + "}", "", "\0"])
def test_a_suite_that_is_a_bomb_is_refused(tmp_path: Path, suite: str) -> None:
    """The suite is JSON that somebody else wrote."""
    (tmp_path / "s.json").write_text(suite, encoding="utf-8")
    with pytest.raises(PipelineFileError):
        gate_suite.load(config.Gate(suite=str(tmp_path / "s.json")), ())


@pytest.mark.parametrize("pattern", ["(" * 600 + ")" * 600, "a{99999999999999}", "a" * 2000, "(", ["a"]])
def test_patterns_of_a_suite_are_bounded(tmp_path: Path, pattern: Any) -> None:
    """They are compiled to see whether they can be, and meet no value."""
    rule = {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "c", "regex": pattern}}
    (tmp_path / "s.json").write_text(json.dumps({"name": "s", "expectations": [rule]}), encoding="utf-8")
    with pytest.raises(PipelineFileError) as caught:
        gate_suite.load(config.Gate(suite=str(tmp_path / "s.json")), ddl.parse("c STRING"))
    assert ".regex: " in caught.value.problems[0]


def test_variables_are_filled_in_once(tmp_path: Path) -> None:
    """What the environment holds is no text of the file: a variable's name in it stays as it is."""
    text = GOOD.replace("region: x", "") + 'storage: {region: "${A}", access_key: "${B:-$${C}}"}\n'
    (tmp_path / "f.yaml").write_text(text, encoding="utf-8")
    made = file.read(tmp_path / "f.yaml", {"A": "${SECRET} $${SECRET}", "SECRET": "hunter2", "C": "hunter2"})
    assert made.storage.region == "${SECRET} $${SECRET}"
    assert "hunter2" not in repr(made.storage.model_dump(mode="python"))
    key = made.storage.access_key
    assert key is not None
    assert "hunter2" not in key.get_secret_value()


def test_variables_stay_as_they_are_in_schema_files(tmp_path: Path) -> None:
    """Only the pipeline file's own text is filled in, no default, doc or name of a schema."""
    field = {"name": "a", "type": "string", "default": "${SECRET}", "doc": "${SECRET}"}
    (tmp_path / "a.avsc").write_text(json.dumps({"type": "record", "name": "r", "fields": [field]}), encoding="utf-8")
    plain = GOOD.replace('schema: {columns: "flight INT, carrier STRING"}\n', "")
    (tmp_path / "f.yaml").write_text(plain + "decode: {value: {format: avro, schema_file: a.avsc}}\n", encoding="utf-8")
    made = file.read(tmp_path / "f.yaml", {"SECRET": "hunter2"})
    assert isinstance(made.decode.value, config.AvroFormat)
    assert made.decode.value.schema_file is not None
    assert "${SECRET}" in made.decode.value.schema_file.text


# Schemas


def avro_record(*fields: Any, **more: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [*fields], **more})


def one(kind: Any, **more: Any) -> str:
    return avro_record({"name": "a", "type": kind, **more})


def json_object(part: Any, **more: Any) -> str:
    return json.dumps({"type": "object", "properties": {"a": part}, **more})


def proto(text: str) -> str:
    return f'syntax = "proto3"; {text}'


WIDE_PROTO = "".join(f"M{{}} a{i} = {i + 1};" for i in range(10))
HUGE = "x" * 10_000_000
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}

BAD_AVRO = {
    "deep records": "".join(f'{{"type":"record","name":"r{i}","fields":[{{"name":"a","type":' for i in range(10_000)),
    "deep arrays": '{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000,
    "deep brackets": "[" * 1_000_000,
    "large": one("int", doc=HUGE),
    "wide": avro_record(*({"name": f"f{i}", "type": "int"} for i in range(30_000))),
    "recursive": one(["null", "r"]),
    "long number": '{"type": "fixed", "name": "f", "size": ' + "9" * 100_000 + "}",
    "vast fixed": one({"type": "fixed", "name": "f", "size": 2**31 - 1}),
    "negative fixed": one({"type": "fixed", "name": "f", "size": -1}),
    "deep default": one("int", default="?").replace('"?"', "[" * 900 + "]" * 900),
    "default out of range": one("int", default=2**40),
    "time out of range": one(MILLIS, default=2**63 - 1),
    "decimal out of range": one(DECIMAL, default="zzzzzzz"),
    "default within": one(
        {"type": "record", "name": "q", "fields": [{"name": "b", "type": "int"}]}, default={"b": "x"}
    ),
    "half a character": one("string", default="\ud800"),
    "half a name": avro_record({"name": "\ud800", "type": "string"}),
    "name that is SQL": avro_record({"name": "x` INT); DROP TABLE y; --", "type": "string"}),
    "record's name": avro_record({"name": "a", "type": "int"}, name="r`; --"),
    "symbols": one({"type": "enum", "name": "e", "symbols": {"a": 1}}),
    "aliases": one("int", aliases=5) and avro_record(aliases=[1]),
    "unknown": one("/etc/passwd"),
}  # fmt: skip
BAD_JSON = {
    "deep": '{"type":"object","properties":{"a":' * 10_000 + '{"type":"string"}' + "}}" * 10_000,
    "too deep": '{"type":"object","properties":{"a":' * 70 + '{"type":"string"}' + "}}" * 70,
    "large": json_object({"type": "string"}, description=HUGE),
    "wide": json.dumps({"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(30_000)}}),
    "references": json.dumps({
        "$ref": "#/d/0",
        "d": {str(i): {"allOf": [{"$ref": f"#/d/{i + 1}"}] * 10} for i in range(12)} | {"12": {"type": "object"}},
    }),
    "chain": json_object({"$ref": "#/d/0"}, d={str(i): {"$ref": f"#/d/{i + 1}"} for i in range(5000)}),
    "recursive": json_object({"$ref": "#"}),
    "pointer": json_object({"$ref": "#" + "/properties/a" * 50_000}),
    "http": json_object({"$ref": "http://127.0.0.1:9/x.json"}),
    "file": json_object({"$ref": "file:///etc/passwd"}),
    "upwards": json_object({"$ref": "../../../../../../etc/passwd"}),
    "long number": '{"type":"object","properties":{"a":{"type":"integer","default":' + "9" * 5000 + "}}}",
    "default out of range": json_object({"type": "integer", "default": 2**70}),
    "default within": json_object(
        {"type": "object", "properties": {"b": {"type": "integer"}}, "default": {"b": "x"}}
    ),
    "decimal that is SQL": json_object({
        "type": "number", "connect.type": "bytes", "title": "org.apache.kafka.connect.data.Decimal",
        "connect.parameters": {"scale": "0", "connect.decimal.precision": "9); DROP TABLE x"},
    }),
    "half a name": json.dumps({"type": "object", "properties": {"\ud800": {"type": "string"}}}),
    "name with NUL": json.dumps({"type": "object", "properties": {"a\0": {"type": "string"}}}),
    "long name": json.dumps({"type": "object", "properties": {"a" * 1000: {"type": "string"}}}),
    "empty name": json.dumps({"type": "object", "properties": {"": {"type": "string"}}}),
}  # fmt: skip
BAD_PROTO = {
    "passwd": proto('import "/etc/passwd"; message M { int32 a = 1; }'),
    "upwards": proto('import "../../x.proto"; message M { int32 a = 1; }'),
    "public": proto('import public "../../../../../etc/passwd"; message M { int32 a = 1; }'),
    "environment": proto('import "/proc/self/environ"; message M { int32 a = 1; }'),
    "endless": proto('import "/dev/zero"; message M { int32 a = 1; }'),
    "itself": proto('import "schema.proto"; message M { int32 a = 1; }'),
    "deep": proto("message M { " * 10_000),
    "chain": proto("".join(f"message M{i} {{ M{i + 1} a = 1; }} " for i in range(10_000)) + "message M10000 {}"),
    "wide": proto("message M { " + "".join(f"int32 a{i} = {i + 1};" for i in range(30_000) if i < 18_999) + "}")
    + "".join(f"message M{i} {{ M a = 1; M b = 2; }}" for i in range(1)),
    "bomb": proto("".join(f"message M{i} {{ {WIDE_PROTO.replace('{}', str(i + 1))} }} " for i in range(12)))
    + "message M12 { int32 a = 1; }",
    "recursive": proto("message M { M a = 1; }"),
    "large": proto(f"/* {HUGE} */ message M {{ int32 a = 1; }}"),
    "option": proto("message M { option (x) = " + "{ a: " * 100_000 + " }; }"),
    "half a character": proto("message M { int32 a = 1; } // \ud800"),
    "control": proto("message M { int32 a = 1; }\0"),
}
BAD = [
    pytest.param(format, kind, text, id=f"{format}-{what}")
    for format, kind, texts in (
        ("avro", "AVRO", BAD_AVRO),
        ("json_schema", "JSON", BAD_JSON),
        ("protobuf", "PROTOBUF", BAD_PROTO),
    )
    for what, text in texts.items()
]
FORMATS: dict[str, config.ValueFormat] = {
    "avro": config.AvroFormat(format="avro"),
    "json_schema": config.JsonSchemaFormat(format="json_schema"),
    "protobuf": config.ProtobufFormat(format="protobuf"),
}


@pytest.mark.parametrize(("format", "kind", "text"), BAD)
def test_a_schema_that_is_a_bomb_is_refused(format: str, kind: str, text: str) -> None:
    """Each is a reason for its records' refusal, short enough to stand beside each of them, and nothing is fetched."""
    with pytest.raises(SchemaError) as caught:
        read(FORMATS[format], kind, text, (), b"\0")
    said = str(caught.value)
    assert len(said) <= 501
    assert said.encode()
    assert "root:" not in said


@pytest.mark.parametrize("name", ["../../x.proto", "/etc/x.proto", "a/../../x", "a\0b", "a\\..\\b", "", "x" * 5000])
def test_a_reference_is_written_into_its_folder_alone(name: str) -> None:
    """A registry's users name references."""
    with pytest.raises(SchemaError):
        read(FORMATS["protobuf"], "PROTOBUF", proto("message M { int32 a = 1; }"), ((name, "x"),), b"\0")


def test_patterns_and_options_of_a_schema_are_not_evaluated() -> None:
    """They say nothing about columns."""
    slow = {"type": "string", "pattern": "(a+)+$" * 10_000, "default": "a" * 50 + "!"}
    found = read(FORMATS["json_schema"], "JSON", json_object(slow, patternProperties={"(x+)+$": slow}), (), b"")
    assert found is not None
    text = proto('option java_package = "$(exit 1)"; message M { int32 a = 1 [json_name = "x`; --"]; }')
    assert read(FORMATS["protobuf"], "PROTOBUF", text, (), b"\0") is not None


@pytest.mark.parametrize("indexes", [b"", b"\x02\xff", b"\xff" * 20, b"\xfe\xff\xff\xff\x0f", b"\x01", b"\x02\x7e"])
def test_indexes_that_lead_nowhere(indexes: bytes) -> None:
    """A record's message indexes are bytes that anybody wrote."""
    assert read(FORMATS["protobuf"], "PROTOBUF", proto("message M { int32 a = 1; }"), (), indexes) is None


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        (Schema("int8", default="127"), True),
        (Schema("int8", default="128"), False),
        (Schema("int32", name=model.DATE, default="2932897"), False),
        (Schema("float64", default="Infinity"), False),
        (Schema("boolean", default="1"), False),
        (Schema("string", default='"x"'), True),
        (Schema("bytes", default='"\\u1234"'), False),
        (Schema("array", value=Schema("int32"), default="[1, 2]"), True),
        (Schema("array", value=Schema("int32"), default='["x"]'), False),
        (Schema("map", key=Schema("string"), value=Schema("int32"), default='{"a": 1.5}'), False),
        (Schema("struct", fields=(model.Field("a", Schema("int64")),), default='{"a": null}'), True),
        (Schema("struct", fields=(model.Field("a", Schema("int64")),), default="5"), False),
        (Schema("struct", fields=(model.Field("a", Schema("int64", default='"x"')),)), False),
    ],
    ids=repr,
)
def test_a_default_is_a_value_of_its_column(schema: Schema, fits: bool) -> None:
    """One that is none would stop the batch in which it is filled in."""
    if fits:
        defaults.check(schema)
    else:
        with pytest.raises(SchemaError, match="its default"):
            defaults.check(schema)


@pytest.mark.parametrize(
    ("name", "type"),
    [
        ("x` INT, `y", "BIGINT"),
        ("x INT) --", "BIGINT"),
        ("a b", "BIGINT"),
        ("a\nb", "BIGINT"),
        ("a" * 1000, "BIGINT"),
        ("a", "OBJECT<" + "a: OBJECT<" * 500 + "b: BIGINT" + ">" * 501),
        ("a", "OBJECT<" + ", ".join(f"k{i}: BIGINT" for i in range(5000)) + ">"),
        ("a", "VOID"),
    ],
)
def test_an_observed_field_that_no_column_can_be(name: str, type: str) -> None:
    """Its name is whatever a record says; it stays in _rescued."""
    assert inferred._schema(name, type) is None


# Records, in Python

TREE = json.loads(
    struct(
        "n INT NOT NULL, s STRING, d DECIMAL(10,2), x DOUBLE, t TIMESTAMP, b BINARY, a ARRAY<INT>, m MAP<STRING,INT>, "
        "st STRUCT<q: INT>"
    ).json()
)
BOMBS = {
    "deep arrays": b'{"n": 1, "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"n": 1, "s": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "half deep": b'{"n": 1, "a": ' + b"[" * 900 + b"]" * 900 + b"}",
    "open": b"[" * 1_000_000,
    "digits": b'{"n": ' + b"9" * 1_000_000 + b"}",
    "real digits": b'{"n": 1, "x": ' + b"9" * 1_000_000 + b".5}",
    "decimal digits": b'{"n": 1, "d": 0.' + b"9" * 1_000_000 + b"}",
    "exponent": b'{"n": 1, "x": 1e400}',
    "vast exponent": b'{"n": 1, "d": 1e999999999}',
    "absurd exponent": b'{"n": 1e99999999999999999999}',
    "minus absurd exponent": b'{"n": 1e-99999999999999999999}',
    "NaN": b'{"n": NaN}',
    "minus infinity": b'{"n": 1, "x": -Infinity}',
    "twice": b'{"n": "x", "n": 1}',
    "long text": b'{"n": "' + b"x" * 5_000_000 + b'"}',
    "long time": b'{"n": 1, "t": "' + b"1" * 1_000_000 + b'"}',
    "no base64": b'{"n": 1, "b": "' + b" AAAA" * 200_000 + b'!"}',
    "half a character": b'{"n": "\\ud800"}',
    "half a name": b'{"\\ud800": 1}',
    "long key": b'{"n": 1, "m": {"' + b"k" * 1_000_000 + b'": "x"}}',
    "many keys": b"{" + b",".join(b'"k%d":1' % i for i in range(100_000)) + b"}",
    "NUL": b"\0" * 1000,
    "empty": b"",
    "UTF-16": '{"n": 1}'.encode("utf-16"),
}


@pytest.mark.parametrize("value", BOMBS.values(), ids=BOMBS)
def test_a_record_that_is_a_bomb_is_diagnosed(value: bytes) -> None:
    """The diagnosis itself neither fails nor grows with the record."""
    reason, message = diagnose(value, TREE)
    assert reason
    assert 0 < len(message) <= 501
    assert message.encode()


# Through real servers


def rows(spark: SparkSession, path: str, *columns: str) -> list[tuple[Any, ...]]:
    return [
        tuple(row)[1:]
        # Sorting whole rows would hold all of the large ones at once.
        for row in spark.read.format("delta").load(path).selectExpr("_offset AS at", *columns).orderBy("at").collect()
    ]


def send(stack: Addresses, topic: str, values: list[kit.Record]) -> None:
    """Produce to a topic that takes records of 100 MB."""
    most = str(120_000_000)
    kit.admin(stack).create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": most})])[topic].result()
    options = {"bootstrap.servers": stack.kafka, "message.max.bytes": most, "compression.type": "lz4", "log_level": 0}
    producer = Producer(options)
    for value in values:
        producer.produce(topic, value.value, value.key)
        producer.flush(60)


@pytest.mark.faults
@pytest.mark.slow
def test_bombs_and_large_records_in_one_batch(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path
) -> None:
    """Each is refused alone with all of its bytes, by its size where it is too large, beside clean ones, in 6 GiB."""
    most = 2**24
    clean, frame = kit.clean(1)[0], len(b'{"n":1,"text":""}')
    fits = b'{"n":1,"text":"' + b"x" * (most - frame) + b'"}'
    large = b'{"n":1,"text":"' + b"x" * 100_000_000 + b'"}'
    bombs = [kit.Record(value) for what, value in BOMBS.items() if not what.startswith("many")]
    values = [
        kit.Record(clean),
        kit.Record(fits),
        kit.Record(large),
        kit.Record(fits + b" "),
        kit.Record(clean, key=b"k" * (most + 1)),
        *bombs,
        kit.Record(clean),
    ]
    send(stack, named, values)
    columns = "n INT NOT NULL, text STRING, s STRING, d DECIMAL(10,2), x DOUBLE, t TIMESTAMP, b BINARY, a ARRAY<INT>, "
    more = "m MAP<STRING,INT>, st STRUCT<q: INT>"
    made = kit.config_of(stack, named, schema={"columns": columns + more})
    file = tmp_path / "pipeline.yaml"
    file.write_text(json.dumps(kit.values_of(stack, named, schema={"columns": columns + more})))
    env = {"LAKEINGEST_STATE": str(tmp_path / "state"), "LAKEINGEST_DRIVER_MEMORY": "6g"}
    with Process(file, "--until-caught-up", env=env) as process:
        assert process.wait(300) == 0, process.out + process.err
        assert f"caught up: {len(values)} records in 1 commits" in process.out
    # By what was sent: a plain consumer takes no record of 100 MB.
    bytes_ = dict(rows(spark, made.quarantine.path, "_offset", "sha2(value, 256)"))
    accepted = [offset for (offset,) in rows(spark, made.table.path, "_offset")]
    assert sorted([*accepted, *bytes_]) == list(range(len(values)))
    assert bytes_ == {offset: kit.sha256(values[offset].value) for offset in bytes_}
    said = {row[0]: row[1:] for row in rows(spark, made.quarantine.path, "_offset", "stage", "reason", "message")}
    assert [said.get(offset) for offset in range(5)] == [
        None,
        None,
        ("value", "TOO_LARGE", f"value has {len(large)} bytes, decode.max_bytes is {most}"),
        ("value", "TOO_LARGE", f"value has {most + 1} bytes, decode.max_bytes is {most}"),
        ("key", "TOO_LARGE", f"key has {most + 1} bytes, decode.max_bytes is {most}"),
    ]
    assert rows(spark, made.table.path, "length(text)")[:2] == [(6,), (most - frame,)]


NASTY = ["a`b", "a.b", "it's", 'say"so', "a/b", "a-b", "é☃", "x` INT) --", "a b", "a,b", "a;b", "a\nb", "$x", "${HOME}",
         "*", "?", "[0]", "a\\b", "a:b", "select", "1", "%41", "a\0b", "a\U0001f600b"]  # fmt: skip


@pytest.mark.slow
def test_nasty_field_names_in_one_batch(stack: Addresses, spark: SparkSession, named: str) -> None:
    """A name that a record brings becomes a column as it is, or stays in _rescued; it is never taken for SQL."""
    values = [json.dumps({"n": i, name: i, "nested": {name: i}}).encode() for i, name in enumerate(NASTY)]
    kit.produce(stack, named, values)
    made = kit.config_of(stack, named, schema={"columns": "n INT NOT NULL", "compatibility": "BACKWARD"})
    assert Pipeline(made).run(until_caught_up=True) == Counts(len(values), len(values), 0)
    kit.produce(stack, named, values)
    assert Pipeline(made).run(until_caught_up=True) == Counts(len(values), len(values), 0)
    table = spark.read.format("delta").load(made.table.path)
    found = [row.asDict(recursive=True) for row in table.orderBy("_offset").collect()]
    for i, name in enumerate(NASTY):
        row = found[i]
        kept = row.get(name)
        rescued = json.loads(row["_rescued"] or "{}")
        assert kept == i or rescued.get(name) == i, name


@pytest.mark.slow
def test_nasty_declared_names_in_one_batch(stack: Addresses, spark: SparkSession, named: str) -> None:
    """A declared column may have any name that Delta stores, and its undeclared fields within are kept."""
    names = [name for name in NASTY if not any(c in ddl.UNSTORABLE + "\0" for c in name)]
    listed = ", ".join(f"`{name.replace('`', '``')}` STRUCT<`{name.replace('`', '``')}`: INT>" for name in names)
    kit.produce(stack, named, [json.dumps({name: {name: 1, "more": 2} for name in names}).encode()])
    made = kit.config_of(stack, named, schema={"columns": listed})
    assert Pipeline(made).run(until_caught_up=True) == Counts(1, 1, 0)
    (row,) = spark.read.format("delta").load(made.table.path).collect()
    assert {name: row[name][name] for name in names} == dict.fromkeys(names, 1)
    assert {name: part["more"] for name, part in json.loads(row["_rescued"]).items()} == dict.fromkeys(names, 2)


@pytest.mark.slow
def test_schemas_and_payloads_that_are_bombs_in_one_batch(stack: Addresses, spark: SparkSession, named: str) -> None:
    """Payloads that claim more than they hold, and schemas that nobody has, are refused beside clean ones."""
    good = registry_kit.avro(stack, f"{named}-value", registry_kit.record("R", a="string", b=registry_kit.maybe("int")))
    zig = registry_kit.zigzag
    frame = registry_kit.header(good.id or 0)
    payloads = [
        good(a="x", b=1),
        frame + zig(2**31 - 1) + b"x",
        frame + zig(2**62) + b"x",
        frame + zig(-5) + b"x",
        frame + b"\xff" * 50,
        frame,
        registry_kit.header(2**31 - 1) + b"x",
        registry_kit.header(0) + b"x",
        b"\0",
        good(a="y", b=None),
    ]
    kit.produce(stack, named, payloads)
    made = kit.config_of(
        stack, named, decode={"value": {"format": "avro"}}, schema={"columns": None}, registry={"url": stack.registry}
    )
    assert Pipeline(made).run(until_caught_up=True) == Counts(len(payloads), 2, len(payloads) - 2)
    kit.assert_exactly_once(spark, Pipeline(made), kit.manifest(stack, named))
