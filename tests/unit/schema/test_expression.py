"""Expressions: what is understood of them, what is refused, and where in them something may fail."""

from __future__ import annotations

import pytest

from lakeingest.schema import ddl
from lakeingest.schema.expression import read
from lakeingest.schema.expression_parts import ExpressionError

COLUMNS = ddl.parse(
    "a INT, b STRING, c DOUBLE, d DATE, ok BOOLEAN, s STRUCT<x: INT>, l ARRAY<INT>, m MAP<STRING, INT>, raw BINARY"
)


@pytest.mark.parametrize(
    ("text", "value", "failed"),
    [
        ("a", "`a`", "false"),
        ("S.X", "`S`.`X`", "false"),
        ("a = 1 AND b LIKE 'x%'", "((`a` = 1) AND (`b` LIKE 'x%'))", "false"),
        ("a + 1", "try_add(`a`, 1)", "(`a` IS NOT NULL AND 1 IS NOT NULL AND try_add(`a`, 1) IS NULL)"),
        ("'it''s'", "'it\\'s'", None),
        (r"'\\d'", r"'\\d'", "false"),
        ("l[0]", "get(`l`, 0)", "false"),
        ("round(length('{1}'), 2)", "round(length('{1}'), 2)", "false"),
        ("m['k']", "try_element_at(`m`, 'k')", "false"),
        (
            "lower(header('it'))",
            "lower(try_validate_utf8(CAST(try_element_at(filter(_headers, h -> h.key = 'it'), -1).value AS STRING)))",
            "false",
        ),
        ("ifnull(b, 'x')", "coalesce(`b`, 'x')", "false"),
        ("a::STRING", "try_cast(`a` AS STRING)", "(`a` IS NOT NULL AND try_cast(`a` AS STRING) IS NULL)"),
        (
            "if(ok, CAST(b AS INT), 0)",
            "CASE WHEN `ok` THEN try_cast(`b` AS INT) ELSE 0 END",
            "(coalesce(`ok`, false) AND (`b` IS NOT NULL AND try_cast(`b` AS INT) IS NULL))",
        ),
    ],
)
def test_what_spark_gets(text: str, value: str, failed: str | None) -> None:
    """Written anew, with what never raises in the place of what does."""
    if failed is None:
        # Two texts side by side are two.
        with pytest.raises(ExpressionError):
            read(text, COLUMNS)
        return
    found = read(text, COLUMNS)
    assert (found.value, found.failed) == (value, failed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no expression; write one"),
        ("a +", "not understood in column"),
        ("a; b", "no expression"),
        ("a -- b", "holds a comment"),
        ("/*+ BROADCAST(t) */ a", "holds a comment"),
        ("aa", "aa is no column; did you mean a?"),
        ("s.y", "s.y is no field of s; there: x"),
        ("a.x", "a.x is no field of a; there: none"),
        ("b > 5", "b > 5 has a text and a number; CAST one to the other's type"),
        ("b + 1", "b + 1 takes a number, and b is a text; CAST it to one"),
        ("NOT a", "NOT a takes a boolean, and a is a number"),
        ("upper(a)", "takes a text, and a is a number"),
        ("upper(b, b)", "upper takes text"),
        ("year(b)", "b is a text; CAST it AS DATE or TIMESTAMP"),
        ("lpad(b, a)", "write a number from 1 to 999 for a"),
        ("lpad(b, 100000)", "write a number from 1 to 999 for 100000"),
        ("b LIKE b", "write the pattern itself"),
        (r"b LIKE 'a\\'", "a backslash stands before %, _ or another one"),
        (r"b LIKE 'a\\x'", "a backslash stands before %, _ or another one"),
        ("concat(s, b)", "name a field of it"),
        ("CAST(a AS INTERVAL)", "is no type of a column"),
        ("CAST(d AS INT)", "Spark casts no date to INT"),
        ("a IN (SELECT 1)", "write the values"),
        ("(SELECT max(a) FROM t)", "is not for a transform"),
        ("count(*)", "count(…) is not for a transform"),
        ("sum(a) OVER ()", "is not for a transform"),
        ("header(b)", "write the header's name as a text"),
        ("header('a', 'b')", "write the header's name as a text"),
        ("rand()", "rand(…) is not for a transform"),
        ("uuid()", "uuid(…) is not for a transform"),
        ("reflect('java.lang.System', 'exit', 1)", "reflect(…) is not for a transform"),
        ("java_method('a', 'b')", "java_method(…) is not for a transform"),
        ("current_timestamp()", "current_timestamp(…) is not for a transform"),
        ("current_user", "current_user is no column"),
        ("lakeingest_json.`x`(raw)", "is not for a transform"),
        ("transform(l, x -> x)", "is not for a transform"),
        ("b RLIKE '(a+)+$'", "is not for a transform"),
        ("b || '${env:HOME}'", "${ is not for an expression"),
        ("l[a, b]", "write one index"),
        ("s[0]", "has no elements"),
        (":p", "is not for a transform"),
        ("*", "is not for a transform"),
        ("upper(" * 60 + "b" + ")" * 60, ""),
        ("a" + " + 1" * 60, "nested deeper than 50 levels"),
        ("(" * 3000 + "a" + ")" * 3000, ""),
        ("a" * 10_001, "write one of at most 10,000"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    """With what is wrong, and as a rule a cure."""
    with pytest.raises(ExpressionError) as wrong:
        read(text, COLUMNS)
    assert said in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("a", "int"),
        ("a + 1", None),
        ("CAST(a + 1 AS BIGINT)", "bigint"),
        ("b || b", "string"),
        ("coalesce(a, a)", "int"),
        ("d < d", "boolean"),
        ("if(ok, s, NULL)", "struct<x:int>"),
        ("coalesce(a, 1)", None),
        ("nullif(b, '')", "string"),
    ],
)
def test_its_type(text: str, type_: str | None) -> None:
    """As it is known from the text; of most numbers it is not."""
    found = read(text, COLUMNS).type
    assert (found and str(found)) == type_


def test_what_it_asks() -> None:
    assert read("upper(b) || s.x || CAST(a AS STRING)", COLUMNS).columns == {"a", "b", "s.x"}
    assert read("x.y > z", None).columns == {"x.y", "z"}


NESTED = {
    "abs": "abs({0} - 1)",
    "floor": "floor({0} / 2)",
    "ceil": "ceil({0} * 0.5e0)",
    "minus": "- {0}",
    "CAST to a time": "CAST(CAST({0} AS TIMESTAMP) AS DOUBLE)",
    "CAST to BIGINT": "CAST(CAST({0} AS BIGINT) AS DOUBLE)",
    "timestamp_seconds": "unix_seconds(timestamp_seconds({0}))",
    "round": "round({0}, 1)",
    "greatest": "greatest({0}, 1)",
    "if": "if({0} > 1, 1, 2)",
    "CASE": "CASE {0} WHEN 1 THEN 2 WHEN 3 THEN 4 ELSE 5 END",
    "coalesce": "coalesce(nullif({0}, 1), 2)",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
def test_what_is_nested_does_not_grow_without_bound(text: str) -> None:
    """Twenty abs within each other took `check` 27 seconds: each one wrote its argument three times."""
    nested, sizes = "c", []
    try:
        for _ in range(12):
            nested = text.format(nested)
            found = read(nested, COLUMNS)
            sizes.append(len(found.value) + len(found.failed))
    except ExpressionError as refused:
        assert "too large where it is computed; derive a part of it in a step before" in str(refused)  # noqa: PT017
        assert text == NESTED["CASE"]
    else:
        # It grows by no more than what one more level adds to each of those before.
        assert sizes[-1] < 12 * 12 * 600


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("w * 2", "w * 2 needs 40 digits, 10 of them behind the point; a DECIMAL has 38"),
        ("w + z > 1", "needs 49 digits"),
        ("w * w", "needs 77 digits"),
        ("1 - w", "needs 39 digits"),
        ("u > z", "u > z needs 76 digits"),
        ("coalesce(u, 1)", "needs 48 digits"),
        ("z IN (u)", "needs 76 digits"),
        ("CASE WHEN w > 0 THEN u ELSE z END", "needs 76 digits"),
        ("timestamp_seconds(w)", "TIMESTAMP_SECONDS(w): w is DECIMAL(38,10); CAST it AS DECIMAL(20,6)"),
        ("timestamp_millis(z)", "TIMESTAMP_MILLIS(z): z is DECIMAL(38,0); CAST it AS BIGINT"),
        ("timestamp_micros(z)", "TIMESTAMP_MICROS(z): z is DECIMAL(38,0); CAST it AS BIGINT"),
        ("timestamp_nanos(w)", "TIMESTAMP_NANOS(w): w is DECIMAL(38,10); CAST it AS BIGINT"),
        ("decimal_from_bytes(z, 2)", "is a number; write bytes, or a base64 text"),
        ("decimal_from_bytes('AQ==')", "write the scale as a number, as in decimal_from_bytes(amount, 2)"),
        ("decimal_from_bytes('AQ==', z)", "write the scale as a number"),
        ("decimal_from_bytes('AQ==', 4, 3)", "a DECIMAL has 1 to 38 digits, and no more behind the point"),
        ("decimal_from_bytes('AQ==', 0, 39)", "a DECIMAL has 1 to 38 digits"),
    ],
)
def test_what_spark_would_round_is_refused(text: str, said: str) -> None:
    """A DECIMAL has 38 digits; Spark takes away what is behind the point, in silence."""
    with pytest.raises(ExpressionError) as wrong:
        read(text, ddl.parse("w DECIMAL(38,10), z DECIMAL(38,0), u DECIMAL(38,38)"))
    assert said in str(wrong.value)
