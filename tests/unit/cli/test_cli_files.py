"""check, describe, init and the JSON schema: offline, and all from the one model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakeingest.cli import pipeline_file as commands
from lakeingest.cli import starter
from lakeingest.config import file as pipeline_file
from lakeingest.config import options
from lakeingest.errors import PipelineFileError, UsageError

ROOT = Path(__file__).parents[3]
FLIGHTS = ROOT / "pipelines" / "flights.yaml"


def test_check_says_good_and_what_the_gate_does(capsys: pytest.CaptureFixture[str]) -> None:
    """A good file takes a line, and its gate another."""
    commands.check([FLIGHTS])
    assert capsys.readouterr().out.splitlines() == [
        f"{FLIGHTS}: good",
        "  gate flights: 19 of 20 expectations set single records aside",
    ]


def test_check_tells_the_mistakes_of_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One wrong file does not hide another, and usage errors end with 2."""
    (tmp_path / "a.yaml").write_text("nmae: a\n", encoding="utf-8")
    with pytest.raises(PipelineFileError) as caught:
        commands.check([tmp_path / "a.yaml", FLIGHTS, tmp_path / "none.yaml"])
    assert caught.value.what.startswith("2 of 3 files: ")
    assert any("nmae: unknown option" in problem for problem in caught.value.problems)
    assert any("no such file" in problem for problem in caught.value.problems)
    assert caught.value.exit_code == 2
    assert "good" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("columns", "field", "noticed"),
    [
        ("time_hour STRING", "time_hour", True),
        ("x STRUCT<at: STRING>", "x.at", True),
        ("time_hour TIMESTAMP", "time_hour", False),
        ("time_hour BIGINT", "time_hour", False),
    ],
)
def test_check_says_which_texts_are_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], columns: str, field: str, noticed: bool
) -> None:
    """A text that is no time would put each record into quarantine, and only the records can tell."""
    (tmp_path / "a.yaml").write_text(
        f"name: a\nsource: {{topics: [a]}}\ntable: {{path: s3a://b/t}}\nschema: {{columns: '{columns}'}}\n"
        f"partition: [{{by: time, field: {field}}}]\n",
        encoding="utf-8",
    )
    commands.check([tmp_path / "a.yaml"])
    said = capsys.readouterr().out
    assert (f"partition[0]: {field} is a text: where it is an ISO-8601 date" in said) is noticed


@pytest.mark.parametrize(
    ("subject", "mode", "noticed"),
    [
        ("record", "BACKWARD", True),
        ("topic_record", "FORWARD", True),
        ("record", "NONE", False),
        ("topic", "FULL", False),
    ],
)
def test_check_says_what_becomes_of_several_types(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], subject: str, mode: str, noticed: bool
) -> None:
    """Subjects by the name of the record allow them in one topic, and a table takes one of them."""
    (tmp_path / "a.yaml").write_text(
        "name: a\nsource: {topics: [a]}\ntable: {path: s3a://b/t}\nregistry: {url: 'http://r'}\n"
        f"decode: {{value: {{format: avro, subject: {subject}}}}}\nschema: {{compatibility: {mode}}}\n",
        encoding="utf-8",
    )
    commands.check([tmp_path / "a.yaml"])
    output = " ".join(capsys.readouterr().out.split())
    assert (f"under {mode} the table takes the type that comes first" in output) is noticed


def test_check_reads_the_suite(tmp_path: Path) -> None:
    """A column that the suite misspells is a mistake of the pipeline."""
    rule = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "fligt"}}
    (tmp_path / "s.json").write_text(json.dumps({"name": "s", "expectations": [rule]}), encoding="utf-8")
    text = re.sub(r"suite: .*", "suite: s.json", FLIGHTS.read_text(encoding="utf-8"))
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(PipelineFileError) as caught:
        commands.check([tmp_path / "a.yaml"])
    (problem,) = caught.value.problems
    assert 's.json: expectations[0].kwargs.column: "fligt" is not among the columns; did you mean flight?' in problem


def test_check_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is one JSON document, also when a file is wrong, and holds no secret."""
    (tmp_path / "a.yaml").write_text("storage: {secret_key: [hunter2]}\n", encoding="utf-8")
    with pytest.raises(PipelineFileError):
        commands.check([tmp_path / "a.yaml"], output="json")
    out = capsys.readouterr().out
    assert json.loads(out)["ok"] is False
    assert len(json.loads(out)["files"][0]["problems"]) == 5
    assert "hunter2" not in out


def test_an_unknown_output_is_refused() -> None:
    """Formats are text and json."""
    with pytest.raises(UsageError, match="not a format"):
        commands.check([FLIGHTS], output="xml")


def test_check_imports_nothing_slow() -> None:
    """Neither Spark nor Great Expectations is imported by a check."""
    code = (
        "import sys; from pathlib import Path; from lakeingest.cli.pipeline_file import check; "
        f"check([Path({str(FLIGHTS)!r})]); "
        "slow = ('pyspark', 'great_expectations', 'confluent_kafka', 'boto3', 'rich.table'); "
        "print([m for m in slow if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("part", ["", *options.parts()])
def test_describe_explains_every_part(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each option of a part is named, without a word of pydantic or typing."""
    commands.describe(part)
    out = capsys.readouterr().out
    found = options.find(part)
    assert found is not None
    assert all(option.name in out for option in found.options)
    assert not any(word in out for word in ("Annotated", "NoneType", "Optional", "Literal", "SecretStr", "timedelta"))


def test_describe_puts_the_required_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a key in JSON, columns come before the time zone."""
    commands.describe("decode.key.json")
    out = capsys.readouterr().out
    assert out.index("columns ") < out.index("timezone ")


def test_describe_knows_its_parts() -> None:
    """An unknown part is answered with the known ones."""
    with pytest.raises(UsageError, match=r"did you mean partition\.time\? write one of source"):
        commands.describe("partition.tiem")


def test_describe_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The same tree for programs."""
    commands.describe("trigger", output="json")
    described = json.loads(capsys.readouterr().out)
    assert [(o["path"], o["default"]) for o in described["options"]] == [
        ("trigger.every", "1 minute"),
        ("trigger.max_records", "500000"),
    ]


def every_option(option: options.Option) -> list[options.Option]:
    return [option, *(each for child in option.options for each in every_option(child))]


@pytest.mark.parametrize("option", every_option(options.tree()), ids=lambda o: o.path or "file")
def test_every_option_has_a_meaning(option: options.Option) -> None:
    """No option is left without a sentence."""
    assert option.meaning.endswith((".", ")"))


def test_the_starter_passes_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What init writes is a good file."""
    commands.init(tmp_path / "a.yaml")
    commands.check([tmp_path / "a.yaml"])
    assert capsys.readouterr().out.splitlines()[-1].endswith("a.yaml: good")


def test_every_option_of_the_starter_can_be_set(tmp_path: Path) -> None:
    """With every mark removed the file is still good, and names every option of the default kinds."""
    text = re.sub(r"^( *)#(?! \S|$)", r"\1", starter.text(), flags=re.MULTILINE)
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    keys = dict.fromkeys(
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "QUARANTINE_KEY"), "x" * 16
    )
    pipeline = pipeline_file.read(tmp_path / "a.yaml", keys)
    assert (len(pipeline.partition), pipeline.storage.region) == (3, "us-east-1")
    assert all(f"{o.name}:" in text for o in options.tree().options)


def test_init_overwrites_only_by_force(tmp_path: Path) -> None:
    """A file that exists is kept, unless one insists."""
    file = tmp_path / "a.yaml"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="exists"):
        commands.init(file)
    assert file.read_text(encoding="utf-8") == "mine"
    commands.init(file, force=True)
    assert file.read_text(encoding="utf-8") != "mine"


def test_init_writes_no_path_of_this_machine(tmp_path: Path) -> None:
    """The file goes into a repository, wherever lakeingest is installed: editors look for the schema beside it."""
    commands.init(tmp_path / "a.yaml")
    text = (tmp_path / "a.yaml").read_text(encoding="utf-8")
    assert text.splitlines()[0] == "# yaml-language-server: $schema=pipeline.schema.json"
    assert not [place for place in (commands.SCHEMA.parent, tmp_path) if str(place) in text]


def test_init_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """- stands for standard output."""
    commands.init(Path("-"))
    assert "\nname: flights\n" in capsys.readouterr().out


def test_the_shipped_schema_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    """The committed JSON schema is the model's (`python -m lakeingest.cli.pipeline_file` writes it anew)."""
    commands.describe(json_schema=True)
    assert json.loads(capsys.readouterr().out) == json.loads(commands.SCHEMA.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", sorted((ROOT / "pipelines").glob("*.yaml")), ids=lambda p: p.name)
def test_shipped_pipelines_name_the_schema(file: Path) -> None:
    """Editors find the JSON schema from each file."""
    head = file.read_text(encoding="utf-8").splitlines()[0]
    assert (file.parent / head.removeprefix("# yaml-language-server: $schema=")).resolve() == commands.SCHEMA.resolve()
