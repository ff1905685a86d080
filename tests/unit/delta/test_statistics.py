"""Of which columns the log of a masking pipeline has statistics."""

from __future__ import annotations

import pytest

from lakeingest.delta.statistics import LISTED, listed_columns
from lakeingest.schema.transforms import Mask, TransformStep
from lakeingest.spark import types

COLUMNS = types.struct(
    "_topic STRING, _offset BIGINT, _key STRING, _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "a STRUCT<b: INT, ok: BOOLEAN, `c.d`: DATE>, day DATE, _rescued STRING"
)
A, KEY, HEADERS, RESCUED = (
    TransformStep("mask", masks={name: Mask("null")}) for name in ("a", "_key", "_headers", "_rescued")
)
ALL = "`_topic`,`_offset`,`a`.`b`,`a`.`c.d`"


@pytest.mark.parametrize(
    ("steps", "properties", "ours", "found"),
    [
        ([], {}, None, None),
        ([TransformStep("drop", names=("a",))], {}, None, None),
        ([A], {}, None, ALL),
        ([A, RESCUED], {}, None, ALL + ",`_rescued`"),
        ([A, KEY], {}, None, "`_topic`,`_offset`,`_key`,`a`.`b`,`a`.`c.d`"),
        ([A, KEY, RESCUED, HEADERS], {}, None, None),
        ([A], {LISTED: ALL}, ALL, None),
        ([A], {LISTED: "*********(redacted)"}, ALL, None),
        ([A], {LISTED: "`_topic`"}, "`_topic`", ALL),
        ([A], {LISTED: "_offset, _key,a.b"}, None, "_offset,a.b"),
        ([A], {LISTED: "_offset"}, None, None),
        ([A], {"delta.dataSkippingNumIndexedCols": "2"}, None, None),
        ([A], {"delta.dataSkippingNumIndexedCols": "3"}, None, "`_topic`,`_offset`"),
        ([A], {"delta.dataSkippingNumIndexedCols": "-1"}, None, ALL),
    ],
)
def test_the_columns(
    steps: list[TransformStep], properties: dict[str, str], ours: str | None, found: str | None
) -> None:
    """The least and greatest key of each file stood in the log of a pipeline that masks."""
    assert listed_columns(properties, ours, COLUMNS, {"day"}, steps) == found
