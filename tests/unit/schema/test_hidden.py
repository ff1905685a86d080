"""What the steps hide of a record besides its columns: fields within _rescued, the key, the headers."""

from __future__ import annotations

import pytest

from lakeingest.schema import ddl, hidden
from lakeingest.schema.hidden import Hidden
from lakeingest.schema.transforms import Mask, TransformError, TransformStep, stages

COLUMNS = ddl.parse("id INT, mail STRING, who STRUCT<name: STRING, home: STRUCT<zip: INT, town: STRING>>, l ARRAY<INT>")
HASH = Mask("hash", "salt")


def mask(*paths: str, by: Mask = HASH) -> TransformStep:
    return TransformStep("mask", masks=dict.fromkeys(paths, by))


@pytest.mark.parametrize(
    ("steps", "gone", "only"),
    [
        ([TransformStep("derive", texts={"x": "id"})], set(), None),
        ([mask("MAIL", "who.Name")], {("mail",), ("who", "name")}, None),
        ([TransformStep("drop", names=("mail", "who.home"))], {("mail",), ("who", "home")}, None),
        ([TransformStep("rename", texts={"mail": "contact"}), mask("contact")], {("mail",)}, None),
        ([TransformStep("rename", texts={"mail": "id", "id": "mail"}), mask("mail")], {("id",)}, None),
        ([mask("mail"), TransformStep("rename", texts={"mail": "contact"})], {("mail",)}, None),
        ([TransformStep("flatten", names=("who",)), mask("who_home_zip")], {("who", "home", "zip")}, None),
        (
            [
                TransformStep("rename", texts={"who": "w"}),
                TransformStep("flatten", names=("w",)),
                TransformStep("drop", names=("w_name",)),
            ],
            {("who", "name")},
            None,
        ),
        ([TransformStep("cast", texts={"id": "STRING"}), mask("id")], {("id",)}, None),
        ([TransformStep("derive", texts={"mail": "lower(mail)"}), mask("mail")], {("mail",)}, None),
        (
            [TransformStep("drop", names=("mail",)), TransformStep("derive", texts={"mail": "'x'"}), mask("mail")],
            {("mail",)},
            None,
        ),
        ([TransformStep("keep", names=("id", "who"))], {("mail",), ("l",)}, {("id",), ("who",)}),
        ([TransformStep("keep", names=("id", "_rescued"))], {("mail",), ("who",), ("l",)}, None),
        (
            [TransformStep("flatten", names=("who",)), TransformStep("keep", names=("who_name",))],
            {("id",), ("mail",), ("l",), ("who", "home", "zip"), ("who", "home", "town")},
            {("who", "name")},
        ),
        ([TransformStep("drop", names=("_rescued.note", "_key", "_headers.x"))], {("note",)}, None),
        ([mask("_rescued", by=Mask("null"))], {()}, None),
    ],
)
def test_fields_of_rescued(
    steps: list[TransformStep], gone: set[tuple[str, ...]], only: set[tuple[str, ...]] | None
) -> None:
    """A mask stood for a column, and the field that the column was made of stood in clear in _rescued."""
    found = hidden.rescued([*stages(steps, COLUMNS)])
    assert found == Hidden(frozenset(gone), None if only is None else frozenset(only))


def test_a_column_whose_name_has_a_dot() -> None:
    """A mask of who.x hid the field x of a struct, and a column of that very name stood in clear; renamed, it is hidden
    in _rescued too.
    """
    columns = ddl.parse("id INT, `who.x` STRING, who STRUCT<x: STRING, `e.mail`: STRING>")
    for step in (mask("who.x"), mask("WHO.x"), TransformStep("drop", names=("who.x",))):
        with pytest.raises(TransformError, match=r'rename: {"(?i:who\.x)": (?i:who_x)}'):
            [*stages([step], columns)]
    steps = [TransformStep("rename", texts={"who.x": "who_x"}), mask("who_x", "who.x")]
    assert hidden.rescued([*stages(steps, columns)]).removed_paths == {("who.x",), ("who", "x")}
    steps = [
        TransformStep("flatten", names=("who",)),
        TransformStep("rename", texts={"who_e.mail": "mail"}),
        mask("mail"),
    ]
    assert hidden.rescued([*stages(steps, columns)]).removed_paths == {("who", "e.mail")}


@pytest.mark.parametrize(
    ("kind", "step", "made"),
    [
        ("STRING", mask("_key"), "string"),
        ("BIGINT", mask("_KEY"), "string"),
        ("STRUCT<id: BIGINT, town: STRING>", mask("_key.id"), "struct<id:string,town:string>"),
        ("STRUCT<id: BIGINT, town: STRING>", TransformStep("drop", names=("_key.id",)), "struct<town:string>"),
        ("BINARY", mask("_key", by=Mask("null")), "binary"),
        ("BINARY", TransformStep("drop", names=("_key",)), None),
    ],
)
def test_the_type_of_a_hidden_key(kind: str, step: TransformStep, made: str | None) -> None:
    """As a mask makes of a column; what it cannot be done with is told."""
    found = hidden.key([step], ddl.parse(f"k {kind}")[0].type)
    assert (str(found) if found else None) == made


@pytest.mark.parametrize(
    ("kind", "path", "said"),
    [
        ("BINARY", "_key", "transform[0].mask._key: hash is for texts, numbers and times, and _key is BINARY"),
        ("STRING", "_key.id", "transform[0].mask._key.id: _key is STRING, and has no fields; name the column"),
        ("STRUCT<a: INT>", "_key.id", "transform[0].mask._key.id: id is no column; there: a"),
    ],
)
def test_a_key_that_cannot_be_masked(kind: str, path: str, said: str) -> None:
    """What a mask cannot be done with is told, at its place in the file."""
    with pytest.raises(TransformError) as wrong:
        hidden.key([mask(path)], ddl.parse(f"k {kind}")[0].type)
    assert str(wrong.value).startswith(said)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (mask("_headers"), "_headers is a list; name one header, as in _headers.user, or write null"),
        (mask("_rescued.note"), "_rescued holds JSON, of which fields are left out; write null"),
    ],
)
def test_what_cannot_be_masked(step: TransformStep, said: str) -> None:
    """It is told with its cure, at its place in the file."""
    with pytest.raises(TransformError) as wrong:
        list(stages([step], COLUMNS))
    assert said in str(wrong.value)
