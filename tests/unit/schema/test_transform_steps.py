"""What an ordered list of steps makes of columns: input, step, output; and what is wrong with a step."""

from __future__ import annotations

import pytest

from lakeingest.schema import ddl
from lakeingest.schema.transforms import Mask, TransformError, TransformStep, apply, check_alone, leaves

COLUMNS = (
    "id INT NOT NULL, name STRING, price DOUBLE, at TIMESTAMP, "
    "who STRUCT<mail: STRING NOT NULL, home: STRUCT<zip: INT>>"
)


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (TransformStep("rename", texts={"id": "key", "NAME": "text"}), "key INT NOT NULL, text STRING, …"),
        (TransformStep("rename", texts={"id": "name", "name": "id"}), "name INT NOT NULL, id STRING, …"),
        (TransformStep("drop", names=("price", "at", "who")), "id INT NOT NULL, name STRING"),
        (
            TransformStep("drop", names=("who.home", "at", "price", "name", "id")),
            "who STRUCT<mail: STRING NOT NULL>",
        ),
        (TransformStep("keep", names=("at", "id")), "id INT NOT NULL, at TIMESTAMP"),
        (TransformStep("cast", texts={"ID": "STRING"}), "id STRING NOT NULL, name STRING, …"),
        (TransformStep("derive", texts={"twice": "CAST(price * 2 AS DOUBLE)"}), "…, twice DOUBLE"),
        (TransformStep("derive", texts={"NAME": "upper(name)", "n": "length(name) > 2"}), "…, n BOOLEAN"),
        (
            TransformStep("derive", texts={"d": "CAST(at AS DATE)", "i": "id", "z": "who.home", "o": "_offset"}),
            "…, d DATE, i INT, z STRUCT<zip: INT>, o BIGINT",
        ),
        (
            TransformStep("flatten", names=("who",)),
            "id INT NOT NULL, name STRING, price DOUBLE, at TIMESTAMP, who_mail STRING, who_home_zip INT",
        ),
        (TransformStep("where", texts={"dear": "price > 10"}), "…"),
        (
            TransformStep(
                "mask",
                masks={"name": Mask("last", kept_characters=2), "id": Mask("null"), "who.mail": Mask("hash", "s")},
            ),
            "id INT, name STRING, price DOUBLE, at TIMESTAMP, who STRUCT<mail: STRING, home: STRUCT<zip: INT>>",
        ),
    ],
)
def test_columns(step: TransformStep, wanted: str) -> None:
    """Names and types, in their order; what a value must be is kept where it still is."""
    before = ddl.parse(COLUMNS)
    found = apply([step], before)
    head, _, tail = wanted.partition("…")
    if head or tail:
        first, last = (ddl.parse(text.strip(", ")) if text.strip(", ") else () for text in (head, tail))
        wanted_columns = first + before[len(first) : len(found) - len(last)] + last if "…" in wanted else first
    else:
        wanted_columns = before
    assert [(c.name, str(c.type)) for c in found] == [(c.name, str(c.type)) for c in wanted_columns]
    assert [c.nullable for c in found] == [c.nullable for c in wanted_columns]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            TransformStep("rename", texts={"ids": "x"}),
            "transform[0].rename.ids: ids is no column; did you mean id? there: id,",
        ),
        (
            TransformStep("rename", texts={"id": "Name"}),
            "transform[0].rename.id: there would be two columns name; rename",
        ),
        (
            TransformStep("drop", names=("who.phone",)),
            "transform[0].drop.who.phone: phone is no column; did you mean home? there: mail, home",
        ),
        (TransformStep("drop", names=("name.first",)), "name is STRING, and has no fields; name the column"),
        (TransformStep("drop", names=("who.home.zip",)), "no field of home is left; name the column"),
        (TransformStep("drop", names=("id", "name", "price", "at", "who")), "transform[0].drop: no column is left"),
        (TransformStep("keep", names=("idd",)), "idd is no column; did you mean id?"),
        (
            TransformStep("cast", texts={"who": "STRING"}),
            "Spark casts no struct<mail:string,home:struct<zip:int>> to STRING",
        ),
        (TransformStep("cast", texts={"at": "BOOLEAN"}), "Spark casts no time to BOOLEAN"),
        (
            TransformStep("derive", texts={"n": "price * 2"}),
            "transform[0].derive.n: its type is not told; write it",
        ),
        (TransformStep("derive", texts={"n": "NULL"}), "its type is not told"),
        (TransformStep("derive", texts={"n": "cost"}), "cost is no column; there: id, name, price, at, who, _topic"),
        (TransformStep("derive", texts={"who_am_i": "rand()"}), "rand(…) is not for a transform"),
        (TransformStep("flatten", names=("name",)), "name is STRING, and has no fields; name a STRUCT"),
        (TransformStep("where", texts={"dear": "price"}), "no condition, but a number; write one, as in amount > 0"),
        (
            TransformStep("mask", masks={"id": Mask("last", kept_characters=4)}),
            "last is for text, and id is INT; write hash, or null",
        ),
        (
            TransformStep("mask", masks={"who": Mask("hash", "s")}),
            "hash is for texts, numbers and times, and who is STRUCT<",
        ),
        (TransformStep("mask", masks={"nam": Mask("null")}), "nam is no column; did you mean name?"),
    ],
)
def test_mistakes(step: TransformStep, said: str) -> None:
    """The step, the entry, what is wrong, and a cure."""
    with pytest.raises(TransformError) as wrong:
        apply([step], ddl.parse(COLUMNS))
    assert said in str(wrong.value)


def test_each_step_sees_what_the_one_before_left() -> None:
    steps = [
        TransformStep("rename", texts={"price": "cost"}),
        TransformStep("derive", texts={"total": "CAST(cost * 2 AS DOUBLE)"}),
        TransformStep("drop", names=("cost",)),
        TransformStep("where", texts={"dear": "total > 1"}),
    ]
    assert [c.name for c in apply(steps, ddl.parse(COLUMNS))] == ["id", "name", "at", "who", "total"]
    with pytest.raises(TransformError, match=r"transform\[3\]\.where\.dear: cost is no column"):
        apply([*steps[:3], TransformStep("where", texts={"dear": "cost > 1"})], ddl.parse(COLUMNS))


def test_without_columns() -> None:
    """Where each record brings its schema, the expressions alone are read."""
    check_alone([TransformStep("derive", texts={"n": "upper(a.b) || c"}), TransformStep("rename", texts={"a": "b"})])
    with pytest.raises(TransformError, match=r"transform\[1\]\.where\.x: \(SELECT 1\) is not for a transform"):
        check_alone([TransformStep("drop", names=("a",)), TransformStep("where", texts={"x": "a = (SELECT 1)"})])


def test_the_leaves_of_a_struct() -> None:
    """The path of each in SQL, whatever is in its name."""
    column = ddl.Column("a_b", ddl.Struct((ddl.Column("c`d", ddl.Struct((ddl.Column("e_f", ddl.Atomic("int")),))),)))
    assert [(path, leaf.name) for path, leaf in leaves(column)] == [("`a_b`.`c``d`.`e_f`", "a_b_c`d_e_f")]


def test_a_salt_is_not_shown() -> None:
    assert "secret" not in repr(Mask("hash", "secret"))
