"""The records of the demo of schemas: real weather in three versions, rolled out airport by airport, some damaged."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from fastavro import parse_schema, schemaless_reader

from lakeingest.config import PipelineConfig, file
from lakeingest.local.demo import weather
from lakeingest.local.demo.weather import UNKNOWN, Observation
from lakeingest.schema import compatibility
from lakeingest.schema.formats import avro

FILE = Path(__file__).parents[3] / "pipelines" / "weather.yaml"


@pytest.fixture(scope="module")
def observations() -> list[Observation]:
    return list(weather.records())


@pytest.fixture(scope="module")
def pipeline() -> PipelineConfig:
    return file.read(FILE, {})


def test_every_hour_is_there_in_one_version(observations: list[Observation]) -> None:
    """So many records, so many damaged, and a day of the trial."""
    counts = Counter(o.version for o in observations)
    assert len(observations) == weather.RECORDS
    assert counts[None] + counts[UNKNOWN] == 34
    assert counts[4] == 24
    assert all(counts[version] > 8000 for version in (1, 2, 3))


def test_they_are_the_same_each_time(observations: list[Observation]) -> None:
    """Or producing could not be taken up again."""
    assert list(weather.records()) == observations


@pytest.mark.parametrize("airport", weather.AIRPORTS)
def test_an_airport_goes_from_version_to_version(observations: list[Observation], airport: str) -> None:
    """Within its own partition; JFK goes back after a day of the trial."""
    mine = [o for o in observations if o.key == airport.encode() and o.version not in (None, UNKNOWN)]
    trial = [4, 3] if airport == "JFK" else []
    assert [version for version, _ in groupby(o.version for o in mine)] == [1, 2, 3, *trial]
    assert {o.partition for o in mine} == {weather.AIRPORTS.index(airport)}


@pytest.mark.parametrize("version", [2, 3])
def test_a_version_is_rolled_out_over_two_weeks(observations: list[Observation], version: int) -> None:
    """Records of the version before it and of its own come in turns."""
    seen = [o.version for o in observations if o.version in (version - 1, version)]
    first, last = seen.index(version), len(seen) - 1 - seen[::-1].index(version - 1)
    assert 14 * 24 * 3 * 0.9 < last - first < 14 * 24 * 3 * 1.1


def test_a_record_is_what_was_measured(observations: list[Observation]) -> None:
    """The first hour of Newark, in version 1, behind the id that the registry gave."""
    value = observations[0].value({1: 4711}.__getitem__)
    assert value[:5] == b"\0" + (4711).to_bytes(4, "big")
    schema = parse_schema(json.loads(weather.SCHEMAS[1]))
    read = schemaless_reader(io.BytesIO(value[5:]), schema, None)
    assert isinstance(read, dict)
    assert (read["origin"], read["temp"], read["time"].isoformat()) == ("EWR", 39.02, "2013-01-01T06:00:00+00:00")


def test_the_damaged(observations: list[Observation]) -> None:
    """In turn cut short, of an unknown id, and JSON."""
    cut, unknown, text = (observations[500 * turn - 1].value(lambda _: 7) for turn in (1, 2, 3))
    assert (cut[:5], len(cut) < len(observations[0].value(lambda _: 7))) == (b"\0\0\0\0\7", True)
    assert observations[999].version == UNKNOWN
    assert unknown[0] == 0
    assert json.loads(text)["origin"] in weather.AIRPORTS


@pytest.mark.parametrize(
    ("record", "current", "action"), [(2, 1, "evolve"), (3, 2, "evolve"), (1, 3, "project"), (4, 3, "quarantine")]
)
def test_what_the_table_makes_of_a_version(pipeline: PipelineConfig, record: int, current: int, action: str) -> None:
    """It follows the three, brings the older ones up, and refuses the trial."""
    schemas = (replace(avro.read(weather.SCHEMAS[version]), version=version) for version in (record, current))
    assert compatibility.decide(*schemas, pipeline.compatibility).action == action


def test_the_pipeline_file_is_good(pipeline: PipelineConfig) -> None:
    """It reads what the producer sends."""
    assert pipeline.source.topics == (weather.TOPIC,)
    assert pipeline.compatibility == "BACKWARD"
