"""Where a pipeline's tables may lie: in a place of their own each, under whichever name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeingest.config import file
from lakeingest.errors import PipelineFileError


def problems(table: str, quarantine: str | None = None, results: str | None = None, **gate: Any) -> list[str]:
    values: dict[str, Any] = {"name": "a", "source": {"topics": ["a"]}, "schema": {"columns": "c INT"}}
    values["table"] = {"path": table}
    if quarantine is not None:
        values["quarantine"] = {"path": quarantine}
    if results is not None or gate:
        values["gate"] = {"suite": "s.json", **({} if results is None else {"results": results}), **gate}
    try:
        file.from_mapping(values)
    except PipelineFileError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(
    "other",
    ["s3a://b/t", "s3a://b/t/", "s3a://b/t/q", "s3a://b", "s3a://b/./t/q", "s3a://b//t/q", "s3a://b/t/./q", "s3://b/t",
     "s3n://b/t/q", "s3://b/./t//q/", "s3a:///b/t"],
)  # fmt: skip
@pytest.mark.parametrize("option", ["quarantine.path", "gate.results"])
def test_two_tables_in_one_place_are_refused(option: str, other: str) -> None:
    """VACUUM of one would delete the other, however its path is spelt."""
    (found,) = problems("s3a://b/t", **{option.removeprefix("gate.").removesuffix(".path"): other})
    assert found.startswith(f"{option}: ")
    if other not in ("s3a://b", "s3a:///b/t"):
        assert f'"{other}" and table.path "s3a://b/t" are the same or lie within each other; write a path' in found


@pytest.mark.parametrize(
    ("quarantine", "results", "said"),
    [
        ("s3a://b/q", "s3://b/q", 'gate.results: "s3://b/q" and quarantine.path "s3a://b/q" are the same'),
        ("s3a://b/q", "s3a://b/q/r", 'gate.results: "s3a://b/q/r" and quarantine.path "s3a://b/q" are'),
        ("s3a://b/r/q", "s3a://b/r", 'gate.results: "s3a://b/r" and quarantine.path "s3a://b/r/q" are'),
        (None, "s3a://b/t_quarantine", 'gate.results: "s3a://b/t_quarantine" and quarantine.path "s3a://b/t_quar'),
        ("s3a://b/t_expectations", None, 'quarantine.path: "s3a://b/t_expectations" and gate.results "s3a://b/t_exp'),
    ],
)
def test_quarantine_and_results_are_no_one_place(quarantine: str | None, results: str | None, said: str) -> None:
    """Each pair is compared, also with the places that are not written down."""
    (found,) = problems("s3a://b/t", quarantine, results, on_row_failure="warn")
    assert found.startswith(said)


def test_a_default_place_is_compared_too() -> None:
    """A quarantine that is not written down lies beside the table, where the results may have been put."""
    values = {"name": "a", "source": {"topics": ["a"]}, "schema": {"columns": "c INT"}, "table": {"path": "s3a://b/t"}}
    gate = {"suite": "s.json", "results": "s3a://b/t_quarantine", "on_row_failure": "sometimes"}
    with pytest.raises(PipelineFileError) as caught:
        file.from_mapping({**values, "quarantine": {"max_refused": "1%"}, "gate": gate})
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["gate.on_row_failure"]
    with pytest.raises(PipelineFileError, match="1 mistake") as caught:
        file.from_mapping({**values, "quarantine": {"max_refused": "1%"}, "gate": {**gate, "on_row_failure": "warn"}})
    assert caught.value.problems[0].startswith('gate.results: "s3a://b/t_quarantine" and quarantine.path')


def test_three_tables_in_one_place_are_all_told() -> None:
    """Each pair is a mistake of its own."""
    assert [found.partition(":")[0] for found in problems("/d/t", "file:/d/t/q", "file:///d/t")] == [
        "quarantine.path",
        "gate.results",
        "gate.results",
    ]


@pytest.mark.parametrize(
    ("table", "quarantine", "results"),
    [
        ("s3a://b/t", "s3a://b/t2", "s3a://b/tt/t"),
        ("s3a://b/t", "s3a://c/t", "/b/t"),
        ("s3a://b/t", "s3a://b/%74/q", "s3a://b/T"),
        ("/b/t", "/b/q", "file:/b/r"),
    ],
)
def test_places_that_are_several(table: str, quarantine: str, results: str) -> None:
    """Beside each other, in other buckets, and where only a decoder of % or a caseless one would see the same."""
    assert problems(table, quarantine, results) == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("flights", "relative, and so another place for each process"),
        ("./flights", "relative"),
        ("file:flights", "relative"),
        ("gs://b/t", "gs:// is no store that is supported; write s3a://bucket/path, or a local path from /"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfss:// is no store that is supported"),
        ("wasb://c@a/t", "wasb:// is no store"),
        ("hdfs://h/t", "hdfs:// is no store"),
        ("hdfs:/t", "hdfs:// is no store"),
        ("dbfs:/t", "dbfs:// is no store"),
        ("http://h/t", "http:// is no store"),
        ("S3A://b/t", "not an address of S3; write it in lower case, as in 's3a://lake/flights'"),
        ("s3:/b/t", "not an address of S3"),
        ("s3a://key:secret@b/t", "write keys and endpoint under storage"),
        ("s3a://b:9000/t", "write keys and endpoint under storage"),
        ("s3a:///t", "no bucket or path"),
        ("s3a://b/./", "a bucket without a path"),
        (f"s3a://b/{'ü' * 413}", "826 bytes behind the bucket, and a key of S3 has 1024"),
        ("s3a://b/../c", "leads upwards"),
        ("file://host/t", "is no store that is supported"),
        ("/", "the root itself"),
        ("file:///", "the root itself"),
    ],
)
def test_a_path_that_no_table_can_have(path: str, said: str) -> None:
    """What nothing would open, or what would be another place than it seems, with what is supported instead."""
    assert any(found.startswith("table.path: ") and said in found for found in problems(path))


def test_local_paths_stay_allowed(tmp_path: Path) -> None:
    """As tests and trials have them."""
    for path in (f"{tmp_path}/t", f"file:{tmp_path}/t", f"file://{tmp_path}/t"):
        assert problems(path) == []
