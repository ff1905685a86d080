"""The diagnosis of a hostile record is short, and does not fail."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from bombs import BOMBS

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


@pytest.mark.parametrize("value", BOMBS.values(), ids=BOMBS)
def test_a_record_that_is_a_bomb_is_diagnosed(value: bytes) -> None:
    """The diagnosis itself neither fails nor grows with the record."""
    reason, message = diagnose(value, TREE)
    assert reason
    assert 0 < len(message) <= 501
    assert message.encode()
