"""Masks and drops beside the columns: what was rescued, the key, headers; and pseudonyms that outlive a widening."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeingest import transform
from lakeingest.schema import ddl, transforms
from lakeingest.schema.hidden import Hidden
from lakeingest.schema.transforms import Mask, TransformStep
from lakeingest.spark import types
from lakeingest.transform import masks

GONE = Hidden(frozenset({("mail",), ("who", "name"), ("who", "home", "zip")}))
KEPT = Hidden(frozenset({("mail",)}), frozenset({("id",), ("who", "home")}))
TEXTS: tuple[tuple[str | None, Hidden, str | None], ...] = (
    (None, GONE, None),
    ('{"mail":"S"}', GONE, None),
    ('{"MAIL":"S","note":"n"}', GONE, '{"note":"n"}'),
    ('{"mail":"S","mail":"S","note":[1,{"mail":"deep"}]}', GONE, '{"note":[1,{"mail":"deep"}]}'),
    (
        '{"who":{"name":"S","Name":"S","home":{"zip":1,"town":"t"},"x":1.5}}',
        GONE,
        '{"who":{"home":{"town":"t"},"x":1.5}}',
    ),
    ('{"who":{"name":"S"},"n":null}', GONE, '{"n":null,"who":{}}'),
    ('{"who":"S","Who":["S"],"n":1}', GONE, '{"n":1,"who":null,"Who":null}'),
    # A nested object has a key twice: what is kept of it is text.
    (
        '{"mail":"S","who":{"name":"S","x":{"a":1,"a":2},"name":"S"},"n":1}',
        GONE,
        '{"who":"{\\"x\\":\\"{\\\\\\"a\\\\\\":1,\\\\\\"a\\\\\\":2}\\"}","n":1}',
    ),
    # Numbers stay as they are written.
    ('{"mail":"S","n":1.10,"who":{"name":"S","x":[1e5,-0]}}', GONE, '{"n":1.10,"who":{"x":[1e5,-0]}}'),
    ('{"note":"n","id":1,"who":{"name":"S","home":{"zip":1}}}', KEPT, '{"id":1,"who":{"home":{"zip":1}}}'),
    ('{"note":"n"}', KEPT, None),
    ('{"note":"n"}', Hidden(frozenset({()})), None),
    ('{"note":"n"}', Hidden(), '{"note":"n"}'),
)


def plain(text: str | None) -> Any:
    def ordered(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        return sorted(pairs, key=str)

    return None if text is None else json.loads(text, object_pairs_hook=ordered, parse_int=repr, parse_float=repr)


def test_what_was_rescued(spark: SparkSession) -> None:
    """A struct with a masked field was kept whole, and so was a text with a key twice."""
    for left_out in {each[1] for each in TEXTS}:
        rows = [(text, wanted) for text, hidden, wanted in TEXTS if hidden == left_out]
        frame = spark.createDataFrame(rows, "text STRING, wanted STRING")
        found = frame.select("text", "wanted", masks.rescued(F.col("text"), left_out).alias("found")).collect()
        assert [plain(row["found"]) for row in found] == [plain(row["wanted"]) for row in found]
        assert "S" not in str([row["found"] for row in found])


def behind(spark: SparkSession, frame: str, columns: str, *steps: TransformStep) -> Any:
    stages = tuple(transforms.stages(steps, ddl.parse(columns)))
    return transform.frame(spark.sql(frame), stages, types.of_columns(stages[-1].after))


HASHED = {text: hashlib.sha256(f"salt{text}".encode()).hexdigest() for text in ("u", "7")}
RECORD = (
    "SELECT 1 AS id, {key} AS _key, '{{}}' AS _rescued, array(struct('user' AS key, X'75' AS value), "
    "struct('other' AS key, X'75' AS value), struct('user' AS key, CAST(null AS BINARY) AS value)) AS _headers"
)


@pytest.mark.parametrize(
    ("key", "step", "wanted"),
    [
        ("'u'", TransformStep("mask", masks={"_key": Mask("hash", "salt")}), HASHED["u"]),
        ("7L", TransformStep("mask", masks={"_KEY": Mask("hash", "salt")}), HASHED["7"]),
        ("X'75'", TransformStep("mask", masks={"_key": Mask("null")}), None),
        ("struct(7 AS a, 'x' AS b)", TransformStep("mask", masks={"_key.a": Mask("hash", "salt")}), (HASHED["7"], "x")),
        ("struct(7 AS a, 'x' AS b)", TransformStep("drop", names=("_key.a",)), ("x",)),
        ("'u'", TransformStep("drop", names=("_key",)), None),
    ],
)
def test_the_key(spark: SparkSession, key: str, step: TransformStep, wanted: Any) -> None:
    """No step reached it: it stood in clear beside a masked field."""
    (row,) = behind(spark, RECORD.format(key=key), "id INT", step).collect()
    assert row["_key"] == wanted
    assert row["id"] == 1


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (
            TransformStep("mask", masks={"_headers.user": Mask("hash", "salt")}),
            [("user", HASHED["u"]), ("other", "u"), ("user", None)],
        ),
        (
            TransformStep("mask", masks={"_headers.user": Mask("constant", "-")}),
            [("user", "-"), ("other", "u"), ("user", None)],
        ),
        (
            TransformStep("mask", masks={"_headers.user": Mask("last", kept_characters=1)}),
            [("user", "***"), ("other", "u"), ("user", None)],
        ),
        (
            TransformStep("mask", masks={"_headers.user": Mask("null")}),
            [("user", None), ("other", "u"), ("user", None)],
        ),
        (TransformStep("drop", names=("_headers.user",)), [("other", "u")]),
        (TransformStep("mask", masks={"_headers": Mask("null")}), None),
        (TransformStep("drop", names=("_headers",)), None),
    ],
)
def test_headers(spark: SparkSession, step: TransformStep, wanted: Any) -> None:
    """Each header of a name; the others stay."""
    (row,) = behind(spark, RECORD.format(key="1"), "id INT", step).collect()
    found = row["_headers"] and [(h["key"], h["value"] and h["value"].decode()) for h in row["_headers"]]
    assert found == wanted


def test_a_header_in_another_case(spark: SparkSession) -> None:
    """Servers of HTTP write names of headers as they like: `User` stood in clear beside a mask of `user`."""
    record = "SELECT 1 AS id, 'k' AS _key, '{}' AS _rescued, array(struct('User' AS key, X'75' AS value)) AS _headers"
    steps: list[tuple[TransformStep, Any]] = [
        (TransformStep("mask", masks={"_headers.uSER": Mask("null")}), [("User", None)]),
        (TransformStep("drop", names=("_headers.user",)), []),
    ]
    for step, wanted in steps:
        (row,) = behind(spark, record, "id INT", step).collect()
        assert [tuple(header) for header in row["_headers"]] == wanted


@pytest.mark.parametrize("name", ["e-mail", "ünï", "a:b", "a[0]", "e`mail", "a'b"])
def test_a_field_of_any_name(spark: SparkSession, name: str) -> None:
    """`check` called it good, and the run ended: Spark takes a name of a struct's field with such letters in quotes."""
    home = F.struct(F.lit("S").alias(name), F.lit("o").alias("other"))
    frame = spark.range(1).select("id", F.struct(home.alias("home"), F.lit("S").alias(name)).alias("who"))
    frame = frame.withColumn("_key", F.col("who"))
    paths = (f"who.{name}", f"who.home.{name}", f"_key.{name}", f"_key.home.{name}")
    columns = types.ddl_columns(frame.drop("_key").schema)
    salted = hashlib.sha256(b"saltS").hexdigest()
    for step, wanted in (
        (
            TransformStep("mask", masks=dict.fromkeys(paths, Mask("null"))),
            {"home": {name: None, "other": "o"}, name: None},
        ),
        (
            TransformStep("mask", masks=dict.fromkeys(paths, Mask("hash", "salt"))),
            {"home": {name: salted, "other": "o"}, name: salted},
        ),
        (TransformStep("drop", names=paths), {"home": {"other": "o"}}),
    ):
        stages = tuple(transforms.stages([step], columns))
        row = transform.frame(frame, stages, types.of_columns(stages[-1].after)).first()
        assert row is not None
        assert row["who"].asDict(recursive=True) == row["_key"].asDict(recursive=True) == wanted


def test_a_header_is_asked_before_it_is_masked_or_behind(spark: SparkSession) -> None:
    """An expression sees the headers as the step before left them, as it sees columns."""
    ask = TransformStep("derive", texts={"found": "header('other')"})
    mask = TransformStep("mask", masks={"_headers.other": Mask("constant", "-")})
    rows = [behind(spark, RECORD.format(key="1"), "id INT", *steps).first() for steps in ((ask, mask), (mask, ask))]
    assert [row["found"] for row in rows] == ["u", "-"]


WIDER = (
    ("CAST(5 AS TINYINT)", "5"),
    ("5", "5"),
    ("5L", "5"),
    ("5.0D", "5"),
    ("CAST(5 AS FLOAT)", "5"),
    ("CAST(5 AS DECIMAL(10,0))", "5"),
    ("CAST(5 AS DECIMAL(12,2))", "5"),
    ("'5'", "5"),
    ("0", "0"),
    ("-0.0D", "0"),
    ("CAST(0 AS DECIMAL(10,2))", "0"),
    ("CAST(100 AS DECIMAL(10,0))", "100"),
    ("CAST(100 AS DECIMAL(10,2))", "100"),
    ("2147483647.0D", "2147483647"),
    ("CAST(-1.50 AS DECIMAL(10,2))", "-1.5"),
    ("CAST(-1.50 AS DECIMAL(20,4))", "-1.5"),
    ("CAST(0.1 AS FLOAT)", "0.1"),
    ("CAST(CAST(0.1 AS FLOAT) AS DOUBLE)", "0.1"),
    ("0.1D", "0.1"),
    ("1.0E20D", "1.0E20"),
    ("double('NaN')", "NaN"),
    ("double('-Infinity')", "-Infinity"),
    ("DATE'2024-02-29'", "2024-02-29"),
    ("TIMESTAMP_NTZ'2024-02-29 00:00:00'", "2024-02-29"),
    ("TIMESTAMP_NTZ'2024-02-29 00:00:00.5'", "2024-02-29 00:00:00.5"),
    ("TIMESTAMP'2024-02-29 00:00:00Z'", "2024-02-29 00:00:00"),
    ("true", "true"),
)
"""A value of a type → the text that is hashed."""


def test_pseudonyms_outlive_a_widening(spark: SparkSession) -> None:
    """The 5 of an INT and that of the DOUBLE that it was widened to had two pseudonyms."""
    frame = spark.sql(f"SELECT {', '.join(f'{value} AS c{at}' for at, (value, _) in enumerate(WIDER))}")
    step = TransformStep("mask", masks={name: Mask("hash", "salt") for name in frame.columns})
    (stage,) = transforms.stages([step], types.ddl_columns(frame.schema))
    made = transform.frame(frame, [stage], types.of_columns(stage.after)).select(*frame.columns)
    wanted = [tuple(hashlib.sha256(f"salt{text}".encode()).hexdigest() for _, text in WIDER)]
    assert_df_equality(made, spark.createDataFrame(wanted, frame.columns), ignore_nullable=True)
