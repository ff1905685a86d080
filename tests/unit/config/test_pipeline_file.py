"""Reading a pipeline file: every mistake at once, each with its line, value and cure."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from lakeingest.config import AvroFormat, PipelineConfig, SchemaFile, uses_registry
from lakeingest.config.file import from_mapping, read
from lakeingest.errors import PipelineFileError

GOOD = """\
name: flights
source:
  topics: [flights]
schema:
  columns: flight INT
table:
  path: s3a://lake/flights
"""


def problems(path: Path, text: str | bytes, **environment: str) -> tuple[str, ...]:
    """What is said of a file with this text."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(PipelineFileError) as caught:
        read(path, environment)
    return tuple(problem.removeprefix(f"{path.parent}/") for problem in caught.value.problems)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "flights.yaml"


def good(path: Path, text: str, **environment: str) -> PipelineConfig:
    """The pipeline of a file with this text."""
    path.write_text(text, encoding="utf-8")
    return read(path, environment)


def test_a_good_file(path: Path) -> None:
    """The file becomes frozen values."""
    assert good(path, GOOD).table.path == "s3a://lake/flights"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nmae: x", "8: nmae: unknown option; did you mean name? allowed: name, renamed_from, source"),
        (
            "trigger: {every: fortnight}",
            '8: trigger.every: "fortnight" is not a duration; write a positive whole number',
        ),
        ("trigger: {max_records: many}", '8: trigger.max_records: "many" is not a whole number; write one'),
        ("trigger: {max_records: 0}", "8: trigger.max_records: 0 is too small; write a number above 0"),
        ("trigger: often", "8: trigger: a single value, where options are expected"),
        (
            "decode: {on_null: wrte}",
            '8: decode.on_null: "wrte" is not one of ignore, write, quarantine; did you mean write',
        ),
        ("decode: {headers: maybe}", '8: decode.headers: "maybe" is not true or false'),
        (
            "decode: {value: {format: jsn}}",
            '8: decode.value.format: "jsn" is not one of json, avro, protobuf, json_schema, connect_json, string',
        ),
        ("decode: {value: {}}", "8: decode.value.format: required, and missing; write one of json, avro, protobuf"),
        (
            "decode:\n  value:\n    format: avro\n    schema: a",
            "11: decode.value.schema: unknown option; did you mean schema_file? allowed: format, subject, schema_file",
        ),
        (
            "decode: {key: {format: avro, subject: topik}}",
            '8: decode.key.subject: "topik" is not one of topic, record, topic_record; did you mean topic?',
        ),
        (
            "registry:\n  url: http://me:hunter2@registry:8081",
            '9: registry.url: "…@registry:8081": holds credentials; write them as basic.auth.user.info in registry.op',
        ),
        ("registry: {url: me:hunter2}", '8: registry.url: "me:hunter2" is not an http or https URL; write one as in'),
        ("decode:\n  key:\n    format: json", "9: decode.key.columns: required, and missing; as in columns: id BIGINT"),
        ("partition: {by: time}", "8: partition: a mapping is not a list"),
        (
            "partition:\n  - by: time\n    every: x",
            '10: partition[0].every: "x" is not a period; write one of hour, day',
        ),
        ("partition:\n  - by: time\n    evry: x", "10: partition[0].evry: unknown option; did you mean every?"),
        (
            "partition:\n  - by: field\n    field: fligt",
            '10: partition[0].field: "fligt" is not among the columns; did you',
        ),
        ("table:\n  path: a", "8: table: stands twice, first in line 6"),
        ("quarantine: {path: 5}", "8: quarantine.path: 5 is not text; write text, in quotes"),
        ("quarantine: {path: 2024-01-01}", '8: quarantine.path: "2024-01-01" is not text; write text, in quotes'),
    ],
)
def test_a_mistake_has_line_path_value_and_cure(path: Path, text: str, said: str) -> None:
    """One line too many, and the message that it is answered with."""
    found = problems(path, f"{GOOD}{text}\n")
    assert any(problem.startswith(f"flights.yaml:{said}") for problem in found), found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: empty"),
        ("# nothing\n", ":1: empty"),
        ("- a\n", ":1: not a mapping of options"),
        ("a: [1\nb: 2\n", ":2: not YAML: expected ',' or ']'"),
        ("a:\n\tb: 1\n", ":2: not YAML: a tab; indent with blanks"),
        ("a: 1\n---\nb: 2\n", ":2: a second document begins"),
        ("a: *b\n", ":1: not YAML: an alias (*name) that nothing defines"),
        ("a: &b [*b]\n", ":1: not understood here: an alias (*name) within the part"),
        ("a: !b c\n", ":1: not YAML that is understood here: a tag"),
        ("a: \x00\n", ":1: not YAML"),
        (b"a: 1\nb: \xff\n", ": byte 0xff in line 2 is not UTF-8"),
    ],
)
def test_what_is_no_pipeline_file_at_all(path: Path, text: str | bytes, said: str) -> None:
    """Text that cannot be read has one problem, with its line."""
    (problem,) = problems(path, text)
    assert f"flights.yaml{said}" in problem


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    """What is not there, or no file, is said so."""
    with pytest.raises(PipelineFileError) as none:
        read(tmp_path / "none.yaml", {})
    assert "no such file; `lakeingest init`" in none.value.problems[0]
    with pytest.raises(PipelineFileError) as folder:
        read(tmp_path, {})
    assert "a folder; name the pipeline file within it" in folder.value.problems[0]


def test_every_mistake_is_told_at_once_in_the_order_of_the_file(path: Path) -> None:
    """Parts are checked although others are wrong, and what they should agree on too."""
    found = problems(
        path,
        """\
        source: {topics: ["a b"]}
        schema: {columns: "a INT"}
        partition:
          - {by: field, field: b}
          - {by: tiem}
        table: {path: s3a://lake/x}
        quarantine: {path: s3a://lake/x}
        trigger: {every: 5}
        """,
    )
    assert [problem.split(": ")[:2] for problem in found] == [
        ["flights.yaml:1", "name"],
        ["flights.yaml:1", "source.topics[0]"],
        ["flights.yaml:4", "partition[0].field"],
        ["flights.yaml:5", "partition[1].by"],
        ["flights.yaml:7", "quarantine.path"],
        ["flights.yaml:8", "trigger.every"],
    ]


def test_nothing_of_pydantic_shows(path: Path) -> None:
    """No raw text, no type names, no URL."""
    found = "\n".join(problems(path, "name: [1]\nsource: 5\ndecode: {value: 3, key: []}\nstorage: {path_style: 7}\n"))
    assert not any(word in found.lower() for word in ("input should", "pydantic", "http", "value error", "_type"))


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("${N}", "flights"),
        ("${NONE:-flights}", "flights"),
        ("${EMPTY:-flights}", "flights"),
        ("x-${N}.${N}", "x-flights.flights"),
    ],
)
def test_variables_are_filled_in(path: Path, written: str, name: str) -> None:
    """A variable is the environment's value, or its default."""
    filled = good(path, GOOD.replace("name: flights", f"name: {written}"), N="flights", EMPTY="")
    assert filled.name == name


def test_variables_of_numbers_and_an_escape(path: Path) -> None:
    """A filled value takes the option's type, and $${ is a plain ${."""
    text = GOOD + 'trigger: {max_records: "${MAX:-5}"}\nstorage: {region: "$${x}"}\n'
    pipeline = good(path, text)
    assert (pipeline.trigger.max_records, pipeline.storage.region) == (5, "${x}")


@pytest.mark.parametrize(
    ("written", "said"),
    [("${NONE}", "${NONE} is not set; export NONE, or write ${NONE:-default}"), ("${", "${ begins no variable")],
)
def test_a_variable_that_is_not_set(path: Path, written: str, said: str) -> None:
    """Missing without a default is a problem of its line, told once."""
    (problem,) = problems(path, GOOD.replace("s3a://lake/flights", written))
    assert problem.startswith(f"flights.yaml:7: table.path: {said}")


def test_the_environment_never_reaches_keys_or_yaml(path: Path) -> None:
    """A value with YAML in it stays a value."""
    assert good(path, GOOD + "storage: {region: '${R}'}\n", R="a\nb: {c}").storage.region == "a\nb: {c}"


@pytest.mark.parametrize(
    "storage",
    [
        "secret_key: [hunter2]",
        "path_style: true\nregistry: {options: [hunter2]}",
        "path_style: true\nregistry: {options: {a: [hunter2]}}",
        "path_style: true\nregistry:\n  url: me:hun/hunter2@registry",
        "secret_key: {a: hunter2}",
        "secretkey: hunter2",
        "options: {a: [hunter2]}",
        "options: hunter2",
        "path_style: ${PASSWORD}",
        "options: {}\nquarantine:\n  path: s3a://lake/flights/${PASSWORD}",
        "secret_key: *hunter2",
        "secret_key: hunter2: hunter2",
        "secret_key: 'hunter2",
        "secret_key: !hunter2 x",
        "secret_key: @hunter2",
    ],
)
def test_errors_tell_no_secret(path: Path, storage: str) -> None:
    """However a secret is miswritten, no message repeats it, nor what the environment holds."""
    path.write_text(f"{GOOD}storage:\n  {storage}\n", encoding="utf-8")
    with pytest.raises(PipelineFileError) as caught:
        read(path, {"PASSWORD": "hunter2"})
    told = "".join(traceback.format_exception_only(caught.value))
    assert "flights.yaml" in told
    assert "hunter2" not in f"{told}{caught.value!r}{caught.value.problems}"


def test_the_suite_lies_beside_the_file(path: Path) -> None:
    """A relative suite is the folder's; an absolute one stays."""
    gate = good(path, GOOD + "gate: {suite: ../e/flights.json}\n").gate
    assert gate is not None
    assert Path(gate.suite) == path.parent / "../e/flights.json"


FLIGHT = """{"type": "record", "name": "Flight", "fields": [
  {"name": "flight", "type": "int"}, {"name": "origin", "type": ["null", "string"]}, {"name": "km", "type": "double"}
]}"""
PLAIN = GOOD.replace("schema:\n  columns: flight INT\n", "decode:\n  value:\n    format: avro\n    schema_file: {}\n")


def test_a_schema_file_is_read_with_the_pipeline(path: Path) -> None:
    """It lies beside the file, and is what it was when the pipeline was read."""
    file = path.with_name("flight.avsc")
    file.write_text(FLIGHT, encoding="utf-8")
    pipeline = good(path, PLAIN.format("flight.avsc"))
    file.unlink()
    assert isinstance(pipeline.decode.value, AvroFormat)
    assert pipeline.decode.value.schema_file == SchemaFile(str(file), FLIGHT)
    assert not uses_registry(pipeline.decode.value)
    columns = [(c.name, str(c.type)) for c in pipeline.columns]
    assert columns == [("flight", "int"), ("origin", "string"), ("km", "double")]


def test_names_hold_for_a_schema_file(path: Path) -> None:
    """Two fields that differ in case alone, and one with a name of lakeingest's own."""
    path.with_name("flight.avsc").write_text(FLIGHT.replace("km", "Flight").replace("origin", "_key"), encoding="utf-8")
    pipeline = good(path, PLAIN.format("flight.avsc") + "schema: {names: {Flight: letter, _key: from}}\n")
    assert [column.name for column in pipeline.columns] == ["flight", "from", "letter"]


@pytest.mark.parametrize(
    ("held", "more", "said"),
    [
        (None, "", '7: decode.value.schema_file: "FILE" cannot be read (No such file or directory); the path is rel'),
        (b"\xff", "", '7: decode.value.schema_file: "FILE" is not UTF-8; save the file as UTF-8'),
        (b"{", "", '7: decode.value.schema_file: "FILE" is not an Avro schema that can be used: '),
        (
            FLIGHT.replace("km", "Flight").encode(),
            "",
            '"FILE" is not an Avro schema that can be used: Flight: a table has one column for upper and lower case',
        ),
        (b'{"type": "recrd"}', "", '7: decode.value.schema_file: "FILE" is not an Avro schema that can be used: '),
        (FLIGHT.replace("km", "_KEY").encode(), "", '"FILE": _KEY is lakeingest\'s own name of a column; rename'),
        (
            FLIGHT.encode(),
            "    subject: topic\n",
            "8: decode.value.subject: schema_file means plain records that no su",
        ),
        (
            FLIGHT.encode(),
            "schema: {columns: a INT}\n",
            "8: schema.columns: not for decode.value.format avro, whose col",
        ),
        (
            FLIGHT.encode(),
            "partition: [{by: field, field: km}]\n",
            '8: partition[0].field: "km" is double, which canno',
        ),
        (
            FLIGHT.encode(),
            "partition: [{by: field, field: fligt}]\n",
            '8: partition[0].field: "fligt" is not among the',
        ),
    ],
)
def test_a_mistake_in_or_about_a_schema_file(path: Path, held: bytes | None, more: str, said: str) -> None:
    """It is told once, at its line in the pipeline file, with the reason and the cure."""
    file = path.with_name("flight.avsc")
    if held is not None:
        file.write_bytes(held)
    written = PLAIN.format(file.name).replace("table:", f"{more}table:")
    (problem,) = problems(path, written)
    quoted = f'"{file}"'
    assert any(said.replace('"FILE"', shown) in problem for shown in (quoted, f'{quoted[:76]}…"'))


def test_a_schema_file_named_by_the_environment_is_not_told(path: Path) -> None:
    """The text of the file stands in place of what the environment holds."""
    (problem,) = problems(path, PLAIN.format("${DIR}/flight.avsc"), DIR="hunter2")
    assert problem.startswith('flights.yaml:7: decode.value.schema_file: "${DIR}/flight.avsc" cannot be read')
    path.with_name("flight.avsc").write_text(FLIGHT, encoding="utf-8")
    (problem,) = problems(path, PLAIN.format("${DIR}/flight.avsc") + "trigger: {max_records: 0}\n", DIR=".")
    assert "max_records: 0 is too small" in problem


def test_an_option_without_a_value_is_left_out(path: Path) -> None:
    """A part whose options are all commented out means its defaults."""
    assert good(path, GOOD + "trigger:\n  # every: 1 day\n").trigger.max_records == 500_000


def test_python_users_have_the_same_check() -> None:
    """A mapping is checked as a file is, without lines."""
    data = {"name": "a", "source": {"topics": ["a"]}, "table": {"path": "/t"}, "schema": {"columns": "a INT"}}
    assert from_mapping(data).quarantine.path == "/t_quarantine"
    with pytest.raises(PipelineFileError) as caught:
        from_mapping({**data, "nmae": 1})
    assert caught.value.problems[0].startswith("nmae: unknown option; did you mean name?")
