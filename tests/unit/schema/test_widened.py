"""Which steps bar a wider type of a column: those that would give another result for an old value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from lakeingest.schema import ddl
from lakeingest.schema.transforms import Mask, TransformStep
from lakeingest.schema.widened import barring

OLD = (
    "n INT, f FLOAT, a DECIMAL(10,2), d DATE, l ARRAY<INT>, m MAP<INT, STRING>, v MAP<STRING, INT>, "
    "s STRUCT<n: INT, t: STRING>, `x.y` INT, big BIGINT, c DOUBLE, t STRING, e DATE"
)
BIGINT, DOUBLE = ("n BIGINT",), ("n DOUBLE",)
BOTH = (*BIGINT, *DOUBLE)
LARGER = ("a DECIMAL(12,2)", "a DECIMAL(20,4)")
# Expression → the widenings that it bars, and those that it does not.
CASES = [
    # What fixes the type, and what asks for no width.
    ("n", (), BOTH),
    ("CAST(n AS BIGINT)", (), BOTH),
    ("CAST(n AS DOUBLE)", (), BOTH),
    ("CAST(n AS SMALLINT)", (), BOTH),
    ("CAST(n AS DECIMAL(20,0))", (), BOTH),
    ("n IS NULL", (), BOTH),
    ("n > 5 AND n <> 7", (), BOTH),
    ("n IN (1, 2, 3) OR n BETWEEN 0 AND 9", (), BOTH),
    ("coalesce(n, 0) = 0", (), BOTH),
    ("CASE n WHEN 1 THEN 'one' ELSE t END", (), BOTH),
    ("if(n > 0, t, 'none')", (), BOTH),
    ("substring(t, n, 2)", (), BOTH),
    ("CAST(n / 2 AS STRING)", (), BOTH),
    ("CAST(timestamp_seconds(n) AS DATE)", (), BOTH),
    ("sign(n) > 0", (), BOTH),
    ("upper(t)", (), BOTH),
    # Arithmetic: what a narrow type cannot hold is null.
    ("CAST(n * n AS BIGINT)", BOTH, ()),
    ("CAST(n + 1 AS BIGINT)", BOTH, ()),
    ("n + 1 > 5", BOTH, ()),
    ("n + 1 IS NULL", BOTH, ()),
    ("CAST(-n AS BIGINT)", BOTH, ()),
    ("CAST(abs(n) AS BIGINT)", BOTH, ()),
    ("CAST(CAST(n AS BIGINT) * CAST(n AS BIGINT) AS BIGINT)", (), BOTH),
    ("CAST(CAST(n AS BIGINT) * n AS BIGINT)", DOUBLE, BIGINT),
    ("CAST(n * big AS BIGINT)", DOUBLE, BIGINT),
    ("CAST(n * c AS DOUBLE)", (), BOTH),
    ("CAST(n % 10 AS INT)", DOUBLE, BIGINT),
    # Texts, and what is made of them.
    ("CAST(n AS STRING)", DOUBLE, BIGINT),
    ("concat(t, '-', n)", DOUBLE, BIGINT),
    ("t || n", DOUBLE, BIGINT),
    ("md5(CAST(n AS STRING))", DOUBLE, BIGINT),
    ("CAST(CAST(n AS DOUBLE) AS STRING)", (), BOTH),
    ("to_json(s)", ("s STRUCT<n: DOUBLE, t: STRING>",), ("s STRUCT<n: BIGINT, t: STRING>", "s STRUCT<t: STRING>")),
    ("to_json(s)", (), ("s STRUCT<n: INT, t: STRING, more: INT>",)),
    ("CAST(xxhash64(n) AS BIGINT)", BOTH, ()),
    ("CAST(xxhash64(t, big) AS BIGINT)", (), BOTH),
    # Beside numbers that a DOUBLE does not hold.
    ("n = big", DOUBLE, BIGINT),
    ("n BETWEEN big AND c", BOTH, ()),
    ("n > 0.1", DOUBLE, BIGINT),
    ("n > 0.5", (), BOTH),
    ("greatest(n, big) > 1", DOUBLE, BIGINT),
    ("CASE n WHEN big THEN 1 END = 1", DOUBLE, BIGINT),
    ("CASE WHEN t = 'x' THEN n ELSE big END = 1", DOUBLE, BIGINT),
    ("nullif(big, n) = 1", DOUBLE, BIGINT),
    # FLOAT, DECIMAL, DATE.
    ("f > 0.1", (), ("f DOUBLE",)),
    ("CAST(f AS STRING)", ("f DOUBLE",), ()),
    ("CAST(f * f AS DOUBLE)", ("f DOUBLE",), ()),
    ("CAST(f AS DECIMAL(20,2))", (), ("f DOUBLE",)),
    ("CAST(round(f, 1) AS DOUBLE)", ("f DOUBLE",), ()),
    ("CAST(a * 2 + n AS DECIMAL(20,2))", (), (*LARGER, *BIGINT)),
    ("CAST(a / 3 AS DECIMAL(20,2))", LARGER, ()),
    ("CAST(a * big AS DECIMAL(38,2))", LARGER[1:], LARGER[:1]),
    ("CAST(a * a AS DOUBLE)", ("a DECIMAL(30,2)",), LARGER),
    ("CAST(a AS STRING)", LARGER[1:], LARGER[:1]),
    ("year(d) = 2024 AND datediff(d, e) > 1", (), ("d TIMESTAMP_NTZ",)),
    ("CAST(d AS TIMESTAMP)", (), ("d TIMESTAMP_NTZ",)),
    ("CAST(d AS STRING)", ("d TIMESTAMP_NTZ",), ()),
    # Within other types.
    ("CAST(l[0] * 2 AS BIGINT)", ("l ARRAY<BIGINT>", "l ARRAY<DOUBLE>"), ()),
    ("l[0] > 1 AND size(l) > 1", (), ("l ARRAY<BIGINT>", "l ARRAY<DOUBLE>")),
    ("l[n]", (), BOTH),
    ("CAST(S.N * 2 AS BIGINT)", ("s STRUCT<n: BIGINT, t: STRING>",), ("s STRUCT<n: INT, t: STRING, more: INT>",)),
    ("m[n]", ("m MAP<BIGINT, STRING>", *BOTH), ()),
    ("v['n'] > 1", (), ("v MAP<STRING, BIGINT>",)),
    ("CAST(`x.y` * 2 AS BIGINT)", ("`x.y` BIGINT",), BOTH),
]


def changed(wider: str) -> tuple[ddl.Column, ...]:
    """The columns with one of another type, and a new one."""
    (new,) = ddl.parse(wider)
    return (*(new if column.name == new.name else column for column in ddl.parse(OLD)), *ddl.parse("later INT"))


def derived(text: str) -> TransformStep:
    return TransformStep("derive", texts={"made": text})


@pytest.mark.parametrize(("text", "bars", "lets"), CASES)
def test_what_bars_a_wider_type(text: str, bars: tuple[str, ...], lets: tuple[str, ...]) -> None:
    for wider in (*bars, *lets):
        why = barring([derived(text)], ddl.parse(OLD), changed(wider))
        assert (why is not None) == (wider in bars), wider
    assert barring([derived(text)], ddl.parse(OLD), changed("n INT")) is None


@pytest.mark.parametrize(("text", "bars", "_"), [case for case in CASES if case[1]])
def test_the_cure_is_one(text: str, bars: tuple[str, ...], _: object) -> None:
    """The step with the CAST that the message says bars the wider type no more."""
    for wider in bars:
        why = barring([derived(text)], ddl.parse(OLD), changed(wider)) or ""
        found = re.search(r"write (CAST\((.*) AS (\w+(\(.*\))?)\)) in the step", why)
        if found is None:
            assert "write a CAST around each value of" in why
            continue
        path = rf"(?<![\w.'`]){re.escape(found[2])}(?![\w(])"
        cured = re.sub(path, found[1], text, flags=re.IGNORECASE)
        assert cured != text
        assert barring([derived(cured)], ddl.parse(OLD), changed(wider)) is None, cured


@pytest.mark.parametrize(
    ("steps", "wider", "said"),
    [
        (
            [derived("CAST(n * n AS BIGINT)")],
            "n BIGINT",
            "transform[0].derive.made: n is INT in the table and BIGINT in the record, and the step makes another "
            "value of it: write CAST(n AS BIGINT) in the step, then replay",
        ),
        (
            [
                TransformStep("rename", texts={"n": "count"}),
                TransformStep("where", texts={"many": "t = concat('', Count)"}),
            ],
            "n DOUBLE",
            "transform[1].where.many: count is INT in the table and DOUBLE in the record, and the step makes another "
            "value of it: write CAST(count AS DOUBLE) in the step, then replay",
        ),
        (
            [TransformStep("flatten", names=("s",)), TransformStep("cast", texts={"s_n": "STRING"})],
            "s STRUCT<n: DOUBLE, t: STRING>",
            "transform[1].cast.s_n: s_n is INT in the table and DOUBLE in the record, and the step makes another value "
            "of it: write cast: {s_n: DOUBLE} in a step before it, then replay",
        ),
        (
            [derived("n"), derived("CAST(made + 1 AS BIGINT)")],
            "n BIGINT",
            "transform[1].derive.made: made is INT in the table and BIGINT in the record, and the step makes another "
            "value of it: write CAST(made AS BIGINT) in the step, then replay",
        ),
        (
            [derived("CAST(l[0] AS STRING)")],
            "l ARRAY<DOUBLE>",
            "transform[0].derive.made: l is ARRAY<INT> in the table and ARRAY<DOUBLE> in the record, and the step "
            "makes another value of it: write a CAST around each value of l that the step asks, then replay",
        ),
    ],
)
def test_what_is_said(steps: list[TransformStep], wider: str, said: str) -> None:
    """The step, the column as the step sees it, both types, and the cure."""
    assert barring(steps, ddl.parse(OLD), changed(wider)) == said


def test_steps_that_only_hand_on() -> None:
    """Names, fields and masks are the same for each width; so is what behind a `cast` to one type."""
    steps = [
        TransformStep("mask", masks={"t": Mask("hash", "salt"), "s.n": Mask("hash", "salt")}),
        TransformStep("cast", texts={"n": "BIGINT"}),
        derived("CAST(n * n AS BIGINT)"),
        TransformStep("rename", texts={"n": "count"}),
        TransformStep("drop", names=("s",)),
    ]
    for wider in (*BOTH, "s STRUCT<n: DOUBLE, t: STRING>"):
        assert barring(steps, ddl.parse(OLD), changed(wider)) is None


class Own:
    """A step of somebody's own."""

    columns = "made STRING"

    def compute(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"made": columns["n"].cast("string")}


def test_a_class_of_ones_own_may_ask_any_column() -> None:
    """So none may become wider before it; behind a cast to one type each may."""
    own = TransformStep("own", names=(f"{__name__}:Own",))
    why = barring([own], ddl.parse(OLD), changed("n BIGINT"))
    assert why is not None
    assert why.endswith("write cast: {n: BIGINT} in a step before it, then replay")
    assert barring([TransformStep("cast", texts={"n": "BIGINT"}), own], ddl.parse(OLD), changed("n BIGINT")) is None
    assert barring([own], ddl.parse(OLD), changed("n INT")) is None
