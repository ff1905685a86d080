"""What a suite may not ask for."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pipelines.suites import problems


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("SELECT java_method('java.lang.System', 'exit', 0) FROM {batch}", "java_method(…)"),
        ("SELECT * FROM {batch} WHERE `reflect`('java.lang.Runtime', 'getRuntime') = 1", "reflect(…)"),
        ("SELECT try_reflect('java.lang.System', 'getenv', 'HOME') FROM {batch}", "try_reflect(…)"),
        ("SELECT system.builtin.java_method('a', 'b') FROM {batch}", "java_method(…)"),
        ('SELECT "reflect"(1) FROM {batch}', "reflect(…)"),
        ("SELECT catalog.db.lower(text) FROM {batch}", "lower(…)"),
        ("SELECT my_udf(n) FROM {batch}", "my_udf(…)"),
        ("SELECT input_file_name() FROM {batch}", "input_file_name(…)"),
        ("SELECT current_user() FROM {batch}", "current_user(…)"),
        ("SELECT session_user FROM {batch}", "session_user is not of the batch"),
        ("SELECT rand() FROM {batch}", "rand(…)"),
        ("SELECT repeat(text, 2000000000) FROM {batch}", "repeat(…)"),
        ("SELECT * FROM read_files('/etc/passwd'), {batch}", "read_files(…)"),
        ("SELECT * FROM {batch}, range(10)", "range(…)"),
        ("SELECT * FROM {batch} LATERAL VIEW explode(l) t AS e", "explode(…)"),
        ("SELECT * FROM IDENTIFIER('secrets'), {batch}", "IDENTIFIER(…)"),
        ("SELECT TRANSFORM(n) USING 'sh' AS (x) FROM {batch}", "TRANSFORM(…)"),
        ("SELECT * FROM (MAP n USING 'sh' AS x FROM {batch})", "not understood in column"),
        ("SELECT * FROM {batch} WHERE EXISTS (REDUCE (n) USING 'sh' AS x FROM {batch})", "REDUCE(…)"),
        ("SELECT * FROM {batch}, secrets", "reads secrets"),
        ("SELECT * FROM {batch}, parquet.`/etc/x`", "reads parquet.`/etc/x`"),
        ("SELECT * FROM {batch} WHERE n IN (SELECT n FROM lake.secrets)", "reads lake.secrets"),
        ("SELECT * FROM tmp_view, {batch}", "reads tmp_view"),
        ("SELECT * FROM lake.{batch}", "reads lake.{batch}"),
        ("SELECT * FROM {batch}2", "reads {batch}2"),
        ("SELECT * FROM {batch}, __batch", "does not ask the batch"),
        ("SELECT * FROM {batch} TIMESTAMP AS OF '2020-01-01'", "TIMESTAMP AS OF"),
        ("SELECT * FROM {batch}, (TABLE secrets)", "TABLE is a word of SQL"),
        ("WITH table AS (SELECT * FROM {batch}) SELECT * FROM (TABLE secrets)", "table is a word of SQL"),
        ("WITH stream AS (SELECT * FROM {batch}) SELECT * FROM STREAM secrets", "stream is a word of SQL"),
        ("WITH secrets AS (SELECT * FROM secrets) SELECT * FROM secrets, {batch}", "reads secrets"),
        ("SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM {batch}), t", "has a WITH within"),
        ("SELECT * FROM {batch} WHERE EXISTS (FROM secrets SELECT *)", "secrets"),
        ("SELECT * FROM {batch} |> DROP n", "'|>'"),
        ("SELECT * FROM {batch} WHERE n = :x", "':'"),
        ("SELECT '${{env:HOME}}' FROM {batch}", "${ fills in"),
        ("SELECT '{batch.__class__}' FROM {batch}", "{batch.__class__} is not filled in"),
        ("SELECT '{0}' FROM {batch}", "{0} is not filled in"),
        ("SELECT '{' FROM {batch}", "a brace of your own twice"),
        ("SELECT n FROM {batch}; DROP VIEW {batch}", "';'"),
        ("INSERT INTO x SELECT * FROM {batch}", "begin with SELECT"),
        ("WITH x AS (SELECT * FROM {batch}) INSERT INTO y SELECT * FROM x", "begin with SELECT"),
        ("SELECT * INTO x FROM {batch}", "INTO x"),
        ("SELECT /*+ COALESCE(1) */ * FROM {batch}", "holds a comment, or a hint"),
        ("SELECT 1 /* /* */ FROM {batch} */ , reflect(1) FROM {batch}", "comment"),
        ("SELECT 'n FROM {batch}", "a quote is opened"),
        ("SELECT n FROM {batch} WHERE", "not understood in column 27"),
        (f"SELECT {'(' * 3000}1{')' * 3000} FROM {{batch}}", "cannot be read"),
        ("SELECT n FROM {batch} WHERE " + "n = 1 OR " * 4000 + "n = 2", "characters"),
        ("SELECT 1", "write {batch} as its table"),
        (7, "write it in quotes"),
        ({"$PARAMETER": "q"}, "write it in quotes"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_what_reaches_beyond_the_batch_is_refused(tmp_path: Path, asked: object, named: str) -> None:
    """Before anything runs, with what is wrong: reflection, files, other tables, scripts, what the session holds."""
    found = problems(tmp_path, "unexpected_rows_expectation", unexpected_rows_query=asked)
    assert any(problem.startswith(".unexpected_rows_query: ") and named in problem for problem in found), found
    assert all("; " in problem for problem in found)


@pytest.mark.parametrize("kind", ["$ref", "$dynamicRef", "$recursiveRef"])
@pytest.mark.parametrize("target", ["http://169.254.169.254/x", "file:///etc/passwd", "other.json"])
def test_a_json_schema_of_a_suite_fetches_nothing(tmp_path: Path, kind: str, target: str) -> None:
    """Great Expectations' validator would read the file, or ask the address, on every executor."""
    schema = {"$id": "http://h/", "properties": {"a": [{kind: target}], "b": {kind: "#/$defs/b"}}}
    (found,) = problems(tmp_path, "expect_column_values_to_match_json_schema", column="text", json_schema=schema)
    assert found == f'.json_schema.properties.a[0].{kind}: "{target}" leads out of the suite; ' + (
        "put what is there into $defs, as #/$defs/name"
    )


def test_nothing_is_filled_into_a_suite(tmp_path: Path) -> None:
    """Great Expectations evaluates $PARAMETER as an expression, and looks it up in stores."""
    parameter = {"$PARAMETER": "urn:great_expectations:stores:x"}
    (found,) = problems(tmp_path, "expect_table_row_count_to_equal", value=parameter)
    assert found == ".value.$PARAMETER: nothing is filled in here; write the value itself"
