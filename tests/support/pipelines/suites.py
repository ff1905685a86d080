"""A suite of one expectation, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lakeingest import config
from lakeingest.errors import PipelineFileError
from lakeingest.gate import suite
from lakeingest.schema import ddl

COLUMNS = (
    "n INT, m INT, text STRING, `table` STRING, ts TIMESTAMP, d DATE, l ARRAY<INT>, s STRUCT<`a-b`: INT>, user STRING"
)


def problems(tmp_path: Path, kind: str, **kwargs: Any) -> list[str]:
    """What `check` says of a suite with this one expectation."""
    asked = {"name": "s", "expectations": [{"type": kind, "kwargs": kwargs}]}
    (tmp_path / "s.json").write_text(json.dumps(asked), encoding="utf-8")
    try:
        suite.load(config.Gate(suite=str(tmp_path / "s.json")), ddl.parse(COLUMNS))
    except PipelineFileError as error:
        return [problem.partition(".kwargs")[2] for problem in error.problems]
    return []
