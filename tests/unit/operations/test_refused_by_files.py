"""Refused records by reason, of files that are opened only where their statistics do not tell enough."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakeingest.config import PipelineConfig, Storage
from lakeingest.config.file import from_mapping
from lakeingest.delta.reader.log import Unreadable
from lakeingest.operations import refused
from lakeingest.operations.readers import FileTables

Row = Mapping[str, Any]
_DONE = {"at": "string", "who": "string", "why": "string"}
_STRUCTS = {"moved": {**_DONE, "replay": "long"}, "discarded": _DONE}
_PLAIN = {"_topic": "string", "_partition": "integer", "_offset": "long"}
_PLAIN |= dict.fromkeys(("stage", "reason", "message", "pipeline"), "string")


def struct(columns: Mapping[str, Any]) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return {"type": "struct", "fields": fields}


SCHEMA = struct(
    {
        **_PLAIN,
        "expectations": {"type": "array", "elementType": "string", "containsNull": True},
        **{name: struct(fields) for name, fields in _STRUCTS.items()},
    }
)
TYPES = {"string": pa.string(), "integer": pa.int32(), "long": pa.int64()}
ARROW = pa.schema(
    [
        *((name, TYPES[kind]) for name, kind in _PLAIN.items()),
        ("expectations", pa.list_(pa.string())),
        *((name, pa.struct([(f, TYPES[kind]) for f, kind in fields.items()])) for name, fields in _STRUCTS.items()),
    ]
)


def row(offset: int, reason: str | None = "WRONG_TYPE", stage: str | None = "value", **more: Any) -> Row:
    values = {"_topic": "t", "_partition": 0, "_offset": offset, "stage": stage, "reason": reason}
    return {**values, "message": f"record {offset}", "pipeline": "p", **more}


def statistics(rows: Sequence[Row]) -> dict[str, Any]:
    """As Delta makes them: a text has 32 characters, and one more behind the greatest that was cut off."""
    ends: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}}
    nulls: dict[str, Any] = {}
    for name in _PLAIN:
        held = [each[name] for each in rows if each.get(name) is not None]
        nulls[name] = len(rows) - len(held)
        for end, pick in zip(ends.values(), (min, max), strict=True):
            if held:
                value = pick(held)
                cut = isinstance(value, str) and len(value) > 32
                end[name] = value[:32] + ("\u007f" if cut and pick is max else "") if cut else value
    nulls["expectations"] = sum(each.get("expectations") is None for each in rows)
    for name, fields in _STRUCTS.items():
        nulls[name] = dict.fromkeys(fields, sum(each.get(name) is None for each in rows))
    return {"numRecords": len(rows), **ends, "nullCount": nulls}


def quarantine(folder: Path, *files: Sequence[Row], told: bool = True) -> PipelineConfig:
    """A quarantine that has these rows, file by file."""
    path = folder / "t_quarantine"
    (path / "_delta_log").mkdir(parents=True)
    metadata = {"schemaString": json.dumps(SCHEMA), "partitionColumns": [], "format": {"provider": "parquet"}}
    actions: list[Any] = [{"protocol": {"minReaderVersion": 1}}, {"metaData": {**metadata, "configuration": {}}}]
    for at, rows in enumerate(files):
        parquet.write_table(pa.Table.from_pylist([dict(each) for each in rows], ARROW), path / f"{at}.parquet")
        add = {"path": f"{at}.parquet", "size": (path / f"{at}.parquet").stat().st_size, "partitionValues": {}}
        actions.append({"add": {**add, **({"stats": json.dumps(statistics(rows))} if told else {})}})
    (path / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    values = {
        "name": "p",
        "source": {"topics": ["t"], "bootstrap_servers": "nowhere:1"},
        "schema": {"columns": "id INT"},
        "table": {"path": str(folder / "t")},
    }
    return from_mapping(values)


def by_hand(rows: Sequence[Row], samples: int) -> list[dict[str, Any]]:
    """What `quarantine.reasons` says of these rows."""
    groups: dict[Any, list[Row]] = {}
    mine = (r for r in rows if r["pipeline"] == "p" and r.get("moved") is None and r.get("discarded") is None)
    for each in sorted(mine, key=lambda r: (r["_topic"], r["_partition"], r["_offset"])):
        for reason in [each["reason"]] if each.get("expectations") is None else each["expectations"]:
            groups.setdefault((each["stage"], reason), []).append(each)
    order = sorted(groups, key=lambda g: (-len(groups[g]), *((name is not None, name or "") for name in g)))
    return [
        {
            "stage": group[0],
            "reason": group[1],
            "count": len(groups[group]),
            "samples": [
                {"coordinates": f"{r['_topic']}-{r['_partition']}:{r['_offset']}", "message": r["message"]}
                for r in groups[group][:samples]
            ],
        }
        for group in order
    ]


@pytest.mark.parametrize("samples", [0, 1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_files_are_told_as_if_all_were_read(tmp_path: Path, seed: int, samples: int) -> None:
    """Of one reason or several, whose rows lie between each other's, of a gate's, of others' and of no reason."""
    dice = random.Random(seed)
    done = dict.fromkeys(_DONE, "x")
    long = "A_REASON_OF_MORE_THAN_THIRTY_TWO_CHARACTERS"
    kinds: list[dict[str, Any]] = [
        {},
        {"reason": "BROKEN_JSON"},
        {"reason": "BROKEN_JSON", "stage": "key"},
        {"reason": f"{long}_1"},
        {"reason": f"{long}_2"},
        {"reason": None, "stage": None},
        {"pipeline": "other"},
        {"moved": {**done, "replay": 1}},
        {"discarded": done},
        {"stage": "gate", "reason": "EXPECTATION", "expectations": dice.choice([[], ["b"], ["a", "b"]])},
    ]
    # Two records of one coordinate have no order.
    offsets, files = iter(dice.sample(range(500), 150)), []
    for _ in range(25):
        of = dice.sample(kinds, 1 if dice.random() < 0.7 else 2)
        places = [{"_partition": dice.randrange(2), "_topic": dice.choice("tu")} for _ in range(dice.randrange(1, 5))]
        files.append([row(next(offsets), **{**dice.choice(of), **place}) for place in places])
    found = refused.reasons(FileTables(quarantine(tmp_path, *files), Storage()), samples)
    assert found == by_hand([each for file in files for each in file], samples)


@pytest.fixture
def many(tmp_path: Path) -> PipelineConfig:
    """Forty files of one reason, of which all but the first three are no Parquet any more."""
    config = quarantine(tmp_path, *([row(n * 10), row(n * 10 + 1)] for n in range(40)))
    for n in range(3, 40):
        file = tmp_path / "t_quarantine" / f"{n}.parquet"
        file.write_bytes(b"?" * file.stat().st_size)
    return config


def test_files_that_tell_enough_are_not_opened(many: PipelineConfig) -> None:
    """Ten thousand took fourteen seconds."""
    (found,) = refused.reasons(FileTables(many, Storage()), 3)
    assert (found["count"], [each["coordinates"] for each in found["samples"]]) == (80, ["t-0:0", "t-0:1", "t-0:10"])
    with pytest.raises(Unreadable):
        refused.reasons(FileTables(many, Storage()), 8)


def test_a_file_that_is_lost_is_not_counted(many: PipelineConfig, tmp_path: Path) -> None:
    """Spark names it."""
    (tmp_path / "t_quarantine" / "30.parquet").unlink()
    with pytest.raises(Unreadable, match=r"30.parquet is gone"):
        refused.reasons(FileTables(many, Storage()), 3)


def test_a_sample_may_lie_behind_what_a_file_seems_to_begin_with(tmp_path: Path) -> None:
    """The least of each column need not be one row's."""
    first = [row(100), row(0, _partition=1)]
    config = quarantine(tmp_path, first, *([row(n)] for n in (5, 6, 7)))
    (found,) = refused.reasons(FileTables(config, Storage()), 2)
    assert [each["coordinates"] for each in found["samples"]] == ["t-0:5", "t-0:6"]


@pytest.mark.parametrize("samples", [0, 2])
def test_files_without_statistics_are_read(tmp_path: Path, samples: int) -> None:
    """Others write none."""
    rows = [row(1), row(2, "OTHER"), row(3)]
    config = quarantine(tmp_path, rows[:1], rows[1:], told=False)
    assert refused.reasons(FileTables(config, Storage()), samples) == by_hand(rows, samples)


def test_an_empty_quarantine_has_no_reasons(tmp_path: Path) -> None:
    """None were refused yet."""
    assert refused.reasons(FileTables(quarantine(tmp_path), Storage()), 3) == []
