"""Expressions: what is understood of them, what is refused, and where in them something may fail."""

from __future__ import annotations

import pytest

from lakeingest.schema import ddl
from lakeingest.schema.expression import ExpressionError, read

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
        ("round(length('{1}'), 2)", "try_cast(round(CAST(length('{1}') AS DOUBLE), 2) AS DOUBLE)", "false"),
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
