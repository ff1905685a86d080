"""`lakeingest sql`, over tables that an older lakeingest wrote: what it answers, refuses, and says of other tools."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.pipelines.command_line import Command

from lakeingest.cli.sql import _distinct, _fitting
from lakeingest.config import Storage
from lakeingest.config.file import from_mapping, variables
from lakeingest.operations import openers
from lakeingest.operations.results.openers import Opener

KEPT = Path(__file__).parents[2] / "fixtures" / "49fd8c6" / "tables.tar.gz"
NAME = "kept_49fd8c6"


VALUES = {
    "name": "p",
    "source": {"topics": ["t"], "bootstrap_servers": "nowhere:1"},
    "schema": {"columns": "n INT"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two tables of a pipeline, on this machine."""
    folder = tmp_path_factory.mktemp("lake")
    with tarfile.open(KEPT) as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.fixture
def file(folder: Path, tmp_path: Path) -> Path:
    return written(tmp_path, {"path": str(folder / NAME)})


def written(folder: Path, table: dict[str, Any], **parts: Any) -> Path:
    """The pipeline file of these tables; JSON is YAML too."""
    path = folder / "pipeline.yaml"
    path.write_text(json.dumps({**VALUES, "name": NAME, "table": table, **parts}))
    return path


def test_a_table_for_people(file: Path, lakeingest: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a line or the limit leaves out is said."""
    monkeypatch.setenv("COLUMNS", "60")
    said = lakeingest("sql", file, f"SELECT * FROM {NAME} ORDER BY n", "--limit", 2)
    assert (said.code, said.err) == (0, "")
    assert all(len(line) <= 60 for line in said.out.splitlines()[:6])
    assert "14 rows" in said.out
    assert "12 rows left out: --limit 14 prints all" in said.out
    assert "columns left out, for which the line is too short:" in said.out
    assert said.out.index("sky, tail") > said.out.index("left out, for which")


def test_rows_for_programs(file: Path, lakeingest: Command) -> None:
    """Values as JSON has them; of two columns with one name, each has its own."""
    query = (
        "SELECT 1 AS n, 2 AS n, 1.50::DECIMAL(9, 2) AS d, 'nan'::DOUBLE AS nan, [1, NULL] AS l, {'a': 'x'} AS s, "
        "NULL AS nothing, 'a\x1b[31m' AS bad, '\\xFF'::BLOB AS b, TIMESTAMPTZ '12024-01-01 00:00:00+02' AS far"
    )
    found = lakeingest("sql", file, query, "--output", "json").data
    assert found["rows"] == [
        {
            "n": 1,
            "n_2": 2,
            "d": "1.50",
            "nan": "NaN",
            "l": [1, None],
            "s": {"a": "x"},
            "nothing": None,
            "bad": "a\x1b[31m",
            "b": "\\xFF",
            "far": "12023-12-31 22:00:00+00",
        }
    ]
    assert [column["name"] for column in found["columns"]][:2] == ["n", "n_2"]
    assert found["left_out"] == 0


def test_nothing_that_a_terminal_acts_upon(file: Path, lakeingest: Command) -> None:
    """A record may have brought it."""
    assert "\x1b" not in lakeingest("sql", file, "SELECT 'a\x1b[31m' AS \"\x1b[1m\"").out


def test_the_views(file: Path, lakeingest: Command) -> None:
    """The table, its quarantine and its history say the same of the same batches."""
    query = (
        f"SELECT (SELECT count(*) FROM {NAME}), (SELECT count(*) FROM quarantine), "
        "(SELECT sum(rows) FROM history WHERE pipeline IS NOT NULL), (SELECT max(sequence) FROM history)"
    )
    (row,) = lakeingest("sql", file, query, "--output", "json").data["rows"]
    assert [*row.values()] == [14, 2, 14, 4]
    shown = lakeingest("sql", file, "SHOW TABLES", "--output", "json").data["rows"]
    assert [row["name"] for row in shown] == ["history", NAME, "quarantine"]
    assert lakeingest("sql", file, "DESCRIBE HISTORY", "--output", "json").data["rows"][0]["column_name"] == "version"


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("DELETE FROM quarantine", "DELETE is refused"),
        ("CREATE TABLE x AS FROM quarantine", "CREATE is refused"),
        ("COPY quarantine TO 'out.csv'", "COPY is refused"),
        ("SET threads = 1", "SET is refused"),
        ("ATTACH 'x.db'", "ATTACH is refused"),
        ("INSTALL httpfs", "LOAD is refused"),
        ("CALL enable_logging()", "CALL is refused"),
        ("SELECT 1; DROP VIEW quarantine", "one statement, and this is 2"),
        ("/* nothing */", "one statement, and this is 0"),
        ("SELECT * FROM read_text('/etc/hostname')", "disabled by configuration"),
        ("SELECT * FROM '/etc/hostname.csv'", "disabled by configuration"),
        ("SELECT * FROM glob('/*')", "disabled by configuration"),
        ("SELECT * FROM read_parquet('s3://lake/x')", "disabled by configuration"),
        ("SELECT * FROM enable_logging(storage = 'file', storage_path = '/tmp/x')", "locked"),
        ("SELECT * FROM storage", "storage does not exist"),
        ("SELECT nn FROM quarantine", '"nn" not found'),
        ("SELECT FROM WHERE", "\n  SELECT FROM WHERE\n              ^^^^^\n"),
        ("SELECT 1,\n 'a'::INT", "\n   'a'::INT\n      ^^^^^\n"),
    ],
)
def test_what_is_refused(file: Path, lakeingest: Command, query: str, what: str) -> None:
    """What writes, what reads anything else, and what is wrong, at its place; each with a cure."""
    said = lakeingest("sql", file, query)
    assert (said.code, said.out) == (2, "")
    assert what in said.err
    assert "  cure: " in said.err
    assert not Path("out.csv").exists()


def test_before_the_first_run(tmp_path: Path, lakeingest: Command) -> None:
    """There is no table; what asks for none is answered all the same."""
    file = written(tmp_path, {"path": str(tmp_path / "nothing")})
    said = lakeingest("sql", file, "SELECT * FROM nothing")
    assert (said.code, "run the pipeline first" in said.err) == (2, True)
    assert lakeingest("sql", file, "SELECT 1 AS n", "--output", "json").data["rows"] == [{"n": 1}]


def test_a_table_with_the_name_of_another_view(folder: Path, tmp_path: Path, lakeingest: Command) -> None:
    """It is called records."""
    (tmp_path / "history").symlink_to(folder / NAME)
    file = written(tmp_path, {"path": str(tmp_path / "history")})
    (row,) = lakeingest("sql", file, "SELECT count(*) AS n FROM records", "--output", "json").data["rows"]
    assert row == {"n": 14}


def test_a_name_that_has_to_be_quoted(folder: Path, tmp_path: Path, lakeingest: Command) -> None:
    """It is shown as a query writes it."""
    (tmp_path / "2024-a").symlink_to(folder / NAME)
    file = written(tmp_path, {"path": str(tmp_path / "2024-a")})
    assert '"2024-a", quarantine, history' in lakeingest("sql", file).out
    assert 'the views are "2024-a", history' in lakeingest("sql", file, "SELECT nn FROM history").err


@pytest.mark.parametrize("storage", [{"options": {"fs.s3a.endpoint": "http://127.0.0.1:1"}}, {"region": "eu-west-1"}])
def test_a_store_that_spark_would_look_for_elsewhere(
    tmp_path: Path, lakeingest: Command, storage: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hadoop's options, and a variable that Hadoop does not heed, lead to two stores: none of them is asked."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    said = lakeingest(
        "sql", written(tmp_path, {"path": "s3a://lake/flights"}, storage=storage), "SELECT * FROM flights"
    )
    assert (said.code, "cannot be read without Spark" in said.err) == (2, True), said.err


def test_a_data_file_that_is_gone(folder: Path, tmp_path: Path, lakeingest: Command) -> None:
    """It is named."""
    with tarfile.open(KEPT) as packed:
        packed.extractall(tmp_path, filter="data")
    gone = next((tmp_path / NAME).rglob("*.parquet"))
    gone.unlink()
    said = lakeingest("sql", written(tmp_path, {"path": str(tmp_path / NAME)}), f"SELECT sum(n) FROM {NAME}")
    assert said.code != 0
    assert gone.name in said.err


def test_no_spark_is_imported(file: Path) -> None:
    """It answers where pyspark is not installed."""
    code = (
        "import sys\nsys.modules['pyspark'] = None\nimport lakeingest.cli\n"
        f"sys.argv = ['lakeingest', 'sql', {str(file)!r}, 'SELECT count(*) FROM quarantine']\nlakeingest.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("widths", "line", "fits"), [([5, 5], 20, 2), ([5, 5], 12, 1), ([500], 20, 1), ([500, 5], 60, 2), ([], 20, 0)]
)
def test_how_many_columns_fit(widths: list[int], line: int, fits: int) -> None:
    """One at least; and a long one is broken before others are left out."""
    assert _fitting(["n"] * len(widths), [["x" * width for width in widths]], line) == fits


def test_names_that_stand_twice() -> None:
    """A number is found that no other name has."""
    assert _distinct(["n", "n", "n_2", "n"]) == ["n", "n_2", "n_2_2", "n_3"]


# How other tools open the table ------------------------------------------------------------------------------------

SECRET = "a secret that nobody prints"


def opened(**storage: Any) -> tuple[dict[str, Opener], dict[str, str]]:
    """The tools, and the credentials, of a table in S3 that is not there."""
    config = from_mapping({**VALUES, "table": {"path": "s3a://lake/flights"}, "storage": storage})
    found = openers.openers(config, config.storage)
    return {each.tool: each for each in found}, openers.credentials(config, config.storage, {})


def test_how_tools_open_a_table_of_this_machine(file: Path, lakeingest: Command) -> None:
    """What cannot read it says why; what can is shown, and does it."""
    found = {each["tool"]: each for each in lakeingest("sql", file, "--output", "json").data["open"]}
    assert {tool for tool, each in found.items() if each["reads"]} == {
        "Spark SQL",
        "DuckDB",
        "polars",
        "delta-rs",
        "pandas",
    }
    assert "AWS" in found["Athena"]["why"]
    values: dict[str, Any] = {}
    exec(found["delta-rs"]["code"].replace("\n", "\nfound = "), values)
    assert values["found"].num_rows == 14


@pytest.mark.parametrize(
    ("storage", "why"),
    [
        ({"encryption": {"type": "SSE-C", "key": "aHVzaGh1c2hodXNoaHVzaGh1c2hodXNoaHVzaGh1c2g="}}, "the key that the"),
        ({"access_points": {"lake": "arn:aws:s3:eu-west-1:123456789012:accesspoint/lake-ap"}}, "its alias instead"),
    ],
)
def test_a_store_that_only_s3a_is_let_into(storage: dict[str, Any], why: str) -> None:
    """Spark opens it; what the others would be told is why they cannot, and no key."""
    tools, _ = opened(region="eu-west-1", **storage)
    assert tools["Spark SQL"].reads is None
    assert {tool.reads for name, tool in tools.items() if name != "Spark SQL"} == {False}
    assert why in tools["DuckDB"].why
    assert "aHVza" not in str(tools)


def test_whose_keys_a_role_needs() -> None:
    """The tools know no role: keys of its session are to be in the environment."""
    arn = "arn:aws:iam::123456789012:role/lake-writer"
    _, credentials = opened(access_key=SECRET, secret_key=SECRET, role={"arn": arn})
    assert set(credentials) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
    assert all(f"--role-arn {arn} " in each for each in credentials.values())


def test_a_store_of_ones_own() -> None:
    """Its address stands in the code, and no key does."""
    keys = {"access_key": SECRET, "secret_key": SECRET, "session_token": SECRET}
    tools, credentials = opened(endpoint="http://127.0.0.1:1", path_style=True, region="eu-west-1", **keys)
    assert tools["Athena"].reads is False
    assert {tool.reads for tool in tools.values()} == {None, False}
    for tool, said in {
        "Spark SQL": "delta.`s3a://lake/flights`",
        "Trino": "s3.path-style-access=true",
        "DuckDB": "ENDPOINT '127.0.0.1:1', USE_SSL false, URL_STYLE 'path'",
        "polars": '"aws_endpoint_url": "http://127.0.0.1:1"',
        "delta-rs": '"aws_allow_http": "true"',
        "pandas": '"aws_region": "eu-west-1"',
    }.items():
        assert said in tools[tool].code, tools[tool].code
    assert SECRET not in repr((tools, credentials))
    assert [*credentials] == ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]


def test_names_that_have_to_be_quoted() -> None:
    """The last folder of a path may be any word, and Trino's names are in lower case."""
    storage = {"endpoint": "http://127.0.0.1:1"}
    config = from_mapping({**VALUES, "table": {"path": "s3a://lake/2026-Order"}, "storage": storage})
    tools = {each.tool: each.code for each in openers.openers(config, config.storage)}
    assert 'SELECT * FROM delta.lakeingest."2026_order";' in tools["Trino"]
    assert "register_table('lakeingest', '2026_order', 's3://lake/2026-Order')" in tools["Trino"]


def test_where_keys_come_from(tmp_path: Path, lakeingest: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that the file names, and never what they hold."""
    monkeypatch.setenv("LAKE_KEY", SECRET)
    monkeypatch.setenv("LAKE_SECRET", SECRET)
    storage = {"endpoint": "http://127.0.0.1:1", "access_key": "${LAKE_KEY}", "secret_key": "${LAKE_SECRET:-x}"}
    file = written(tmp_path, {"path": "s3a://lake/flights"}, storage={**storage, "path_style": True})
    said = lakeingest("sql", file)
    assert (said.code, said.err) == (0, "")
    assert "AWS_ACCESS_KEY_ID, from $LAKE_KEY" in said.out
    assert "AWS_SECRET_ACCESS_KEY, from $LAKE_SECRET" in said.out
    assert SECRET not in said.out + lakeingest("sql", file, "--output", "json").out


def test_features_that_shut_tools_out(folder: Path, tmp_path: Path, lakeingest: Command) -> None:
    """As the log says that the table has them now."""
    with tarfile.open(KEPT) as packed:
        packed.extractall(tmp_path, filter="data")
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["typeWidening"], "writerFeatures": []}
    log = tmp_path / NAME / "_delta_log"
    (log / f"{6:020}.json").write_text(json.dumps({"protocol": protocol}))
    file = written(tmp_path, {"path": str(tmp_path / NAME)})
    reads = {each["tool"]: each["reads"] for each in lakeingest("sql", file, "--output", "json").data["open"]}
    assert reads == {
        "Spark SQL": True,
        "Athena": False,
        "Trino": False,
        "DuckDB": True,
        "polars": False,
        "delta-rs": False,
        "pandas": False,
    }
    assert "polars cannot read this table: it does not know typeWidening" in lakeingest("sql", file).out


def test_a_table_of_a_catalog(tmp_path: Path, lakeingest: Command) -> None:
    """Spark alone knows where its name leads."""
    file = written(tmp_path, {"name": "lake.flights"})
    assert [each["tool"] for each in lakeingest("sql", file, "--output", "json").data["open"]] == ["Spark SQL"]
    said = lakeingest("sql", file, "SELECT * FROM flights")
    assert (said.code, "cannot be read without Spark" in said.err) == (2, True)


def test_a_store_that_does_not_listen() -> None:
    """Nothing is waited for: what tools can read the table is not known."""
    tools, _ = opened(endpoint="http://127.0.0.1:1", path_style=True)
    assert tools["polars"].why
    assert openers.credentials(from_mapping({**VALUES, "table": {"path": "/lake/t"}}), Storage(), {}) == {}


def test_the_variables_of_a_file_that_is_read_twice(tmp_path: Path) -> None:
    """A pipe is empty then, and names none; what is no text names none either."""
    file = tmp_path / "pipeline.yaml"
    file.write_text("")
    assert variables(file, "storage") == {}
    file.write_text("storage: {access_key: 'a${A}b${B:-c}$${D}', path_style: true, region: plain}")
    assert variables(file, "storage") == {"access_key": ("A", "B")}
