"""A pipeline file cannot run code, read other files, reach other addresses, or end the process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeingest import config
from lakeingest.config import file
from lakeingest.errors import PipelineFileError
from lakeingest.gate import suite as gate_suite
from lakeingest.schema import ddl

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
