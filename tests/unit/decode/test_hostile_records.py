"""The diagnosis of a hostile record is short, and does not fail."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from support.records.bombs import BOMBS

from lakeingest.decode.json_diagnosis import diagnose
from lakeingest.spark.types import struct

SLOW_S = 10
"""Of this process alone, however busy the machine is; a bomb takes minutes, or all of memory."""


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < SLOW_S


# Records, in Python

TREE = json.loads(
    struct(
        "n INT NOT NULL, s STRING, d DECIMAL(10,2), x DOUBLE, t TIMESTAMP, b BINARY, a ARRAY<INT>, m MAP<STRING,INT>, "
        "st STRUCT<q: INT>"
    ).json()
)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b'{"n": "SECRET"}', ("WRONG_TYPE", "n is no INT")),
        (b'{"n": 1, "st": {"q": "SECRET"}}', ("WRONG_TYPE", "st.q is no INT")),
        (b'{"n": 1, "a": [1, "SECRET"]}', ("WRONG_TYPE", "a[*] is no INT")),
        (b'{"n": 1, "m": {"SECRET": "SECRET"}}', ("WRONG_TYPE", "m.* is no INT")),
        (b'{"n": 1, "st": "SECRET"}', ("WRONG_TYPE", "st is no STRUCT")),
        (b'{"s": "SECRET"}', ("REQUIRED_MISSING", "n is required, and missing")),
        (b'{"n": null, "s": "SECRET"}', ("REQUIRED_NULL", "n is required, and null")),
        (b'"SECRET"', ("NOT_AN_OBJECT", "a JSON object is needed, this is a string")),
        (b'{"n": 1e99999999999}', ("BROKEN_JSON", "a number that nothing holds")),
        (b"SECRET", ("BROKEN_JSON", "Expecting value at character 0 of 6")),
    ],
)
def test_a_diagnosis_without_values(value: bytes, told: tuple[str, str]) -> None:
    """Where a pipeline masks fields the whole message was withheld, the field and the rule with it."""
    assert diagnose(value, TREE, withheld=True) == told


@pytest.mark.parametrize("value", BOMBS.values(), ids=BOMBS)
def test_a_record_that_is_a_bomb_is_diagnosed(value: bytes) -> None:
    """The diagnosis itself neither fails nor grows with the record."""
    reason, message = diagnose(value, TREE)
    assert reason
    assert 0 < len(message) <= 501
    assert message.encode()
