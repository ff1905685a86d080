"""What an export is asked for, and the ranges of offsets that it looks for: no Spark."""

from __future__ import annotations

from typing import Any

import pytest

from lakeingest.delta.additions import merged
from lakeingest.errors import UsageError
from lakeingest.operations.export.request import ExportRequest
from lakeingest.operations.results.export import Exported, ExportedObject


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"place": "out"}, "relative"),
        ({"place": "s3a://lake"}, "a bucket without a path"),
        ({"place": "gs://lake/out"}, "no store that is supported"),
        ({"place": "/a/../b"}, "leads upwards"),
        ({"format": "xml"}, '--format "xml" is not a format'),
        ({"compression": "zstd"}, "none that Spark writes everywhere"),
        ({"format": "avro", "compression": "gzip"}, "of jsonl and csv"),
    ],
)
def test_what_cannot_be_meant(how: dict[str, Any], said: str) -> None:
    """Before Spark is asked."""
    with pytest.raises(UsageError, match=said):
        ExportRequest(**{"place": "/a/b", **how})


@pytest.mark.parametrize(
    ("ranges", "most", "found"),
    [
        ([], 3, ()),
        ([(5, 9), (0, 4)], 3, ((0, 9),)),
        ([(0, 10), (2, 3), (12, 13)], 3, ((0, 10), (12, 13))),
        ([(0, 0), (2, 2), (9, 9), (100, 100)], 3, ((0, 2), (9, 9), (100, 100))),
        ([(0, 0), (2, 2), (9, 9), (100, 100)], 1, ((0, 100),)),
    ],
)
def test_ranges_that_hold_all(ranges: list[tuple[int, int]], most: int, found: tuple[tuple[int, int], ...]) -> None:
    """Few conditions, with the widest gaps left out."""
    assert merged(ranges, most) == found


def exported(**how: Any) -> Exported:
    given = {
        "pipeline": "p",
        "place": "/out",
        "format": "csv",
        "from_version": 3,
        "to_version": 5,
        "rows": 1,
        "files": 2,
        "bytes": 2**20,
    }
    return Exported(**{**given, **how})


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (
            exported(sequence=2, objects=(ExportedObject("a", 1, 2**19),)),
            "1 row came from version 3 to version 5; export 2: 1 object of csv, 0.5 MiB, in /out/export=0000000002-…",
        ),
        (
            exported(dry_run=True, from_version=None, rows=2000),
            "2,000 rows came from the first version to version 5, in 2 files or fewer (1.0 MiB of the table's files) "
            "(dry run: nothing was written)",
        ),
        (exported(rows=0), "nothing new up to version 5"),
    ],
)
def test_what_is_told(done: Exported, said: str) -> None:
    """In one line."""
    assert done.headline == f"p: {said}"
