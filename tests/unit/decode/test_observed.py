"""What a JSON table's schema becomes when a field is observed, and when the file declares other columns. No Spark."""

from __future__ import annotations

from lakeingest.decode import inferred
from lakeingest.schema.model import Schema, struct

STRING, LONG = Schema("string", optional=True), Schema("int64", optional=True)


def names(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields]


def test_an_observed_column_outlives_what_the_file_declares() -> None:
    """A column that the file drops is gone; one that it never declared stays, and is known as observed."""
    declared = inferred.declared("n INT, old STRING", None, 1, observes=False)
    grown = inferred.with_fields(declared, {"extra": LONG}, 2)
    assert [f.name for f in grown.fields if f.schema.doc == inferred.OBSERVED] == ["extra"]
    again = inferred.declared("n INT", grown, 3, observes=False)
    assert (names(again), again.version) == (["n", "extra"], 3)


def test_a_column_that_is_declared_no_more_is_filled_as_observed() -> None:
    """It came back with the type of the next batch's values, or stayed in _rescued, as the batches were cut."""
    declared = inferred.declared("n INT, old STRING NOT NULL", None, 1, observes=True)
    again = inferred.declared("n INT", declared, 2, observes=True)
    assert again.field("old") == Schema("string", optional=True, doc=inferred.OBSERVED)


def test_a_field_within_a_declared_struct_makes_no_observed_column() -> None:
    """The struct grows, keeps its own fields' types, and stays the file's."""
    declared = inferred.declared("at STRUCT<lat: INT>", None, 1, observes=True)
    at = inferred.with_fields(declared, {"at": struct({"lat": LONG, "zip": STRING}, optional=True)}, 2).field("at")
    assert at is not None
    assert (names(at), at.doc) == (["lat", "zip"], None)
    assert at.field("lat") == Schema("int32", optional=True)
