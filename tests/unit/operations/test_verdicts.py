"""The chain of verdicts: what an audit has proved stays proved when the log forgets it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from support.tables import WrittenPipeline

from lakeingest.config import Storage
from lakeingest.errors import TableMismatch, UsageError
from lakeingest.operations import verdicts
from lakeingest.operations.results.audit import Report


@pytest.fixture
def made(tmp_path: Path) -> WrittenPipeline:
    """Two batches."""
    made = WrittenPipeline(tmp_path)
    made.batch({0: 10, 1: 4})
    made.batch({0: 20, 1: 4})
    return made


def proved(made: WrittenPipeline) -> Report:
    return verdicts.go_on(made.audit(), str(made.main.folder), Storage())


def objects(made: WrittenPipeline) -> list[Path]:
    return sorted(Path(verdicts.folder_of(str(made.main.folder))).iterdir())


def test_rows_that_the_log_has_forgotten_were_proved(made: WrittenPipeline) -> None:
    """By the newest verdict, where the log goes on at its end, or before; and the next one follows it."""
    assert proved(made).verdict == 1
    made.batch({0: 30, 1: 9})
    made.main.clean_up(2)
    report = proved(made)
    assert (report.conserved, report.earlier, report.verdict) == (True, 24, 2)
    assert (report.proved_by["verdict"], report.proved_by["rows"]) == (1, 24)
    assert "24 rows, older than the log's receipts, were proved by verdict 1 of" in "\n".join(map(str, report.text))
    made.batch({0: 40, 1: 9})
    made.main.clean_up(3)
    assert proved(made).proved_by["verdict"] == 2
    first, second, third = (each.read_bytes() for each in objects(made))
    assert json.loads(second)["before"] == hashlib.sha256(first).hexdigest()
    assert json.loads(third)["before"] == hashlib.sha256(second).hexdigest()


def test_what_no_verdict_reaches_cannot_be_proved(made: WrittenPipeline) -> None:
    """A batch lies between the newest verdict and the oldest receipt."""
    proved(made)
    made.batch({0: 30, 1: 9})
    made.batch({0: 40, 1: 9})
    made.main.clean_up(3)
    report = proved(made)
    assert (report.earlier, report.proved_by) == (39, {})
    assert "cannot be proved any more" in "\n".join(map(str, report.text))


def test_more_rows_than_were_counted(made: WrittenPipeline) -> None:
    """Somebody added one before all others."""
    proved(made)
    made.batch({0: 30, 1: 9})
    made.main.commit(made.main.write([(0, -1)]))
    made.main.clean_up(2)
    assert (made.audit().earlier, proved(made).proved_by) == (25, {})


def test_a_table_made_anew_has_no_verdict(made: WrittenPipeline, tmp_path: Path) -> None:
    """Its rows are others."""
    proved(made)
    (file,) = objects(made)
    file.write_text(json.dumps({**json.loads(file.read_text()), "table_id": "another"}))
    made.batch({0: 30, 1: 9})
    made.main.clean_up(2)
    assert proved(made).proved_by == {}


def test_no_verdict_of_what_is_not_conserved(made: WrittenPipeline) -> None:
    """Nothing was proved."""
    made.main.commit(made.main.write([(0, 3)]))
    assert (proved(made).conserved, proved(made).verdict) == (False, 0)


def test_a_changed_verdict_is_noticed(made: WrittenPipeline) -> None:
    """Each has the hash of the one before; so does a gap."""
    for _ in range(3):
        proved(made)
    second = objects(made)[1]
    text = second.read_text()
    second.write_text(text.replace('"table": 24', '"table": 25'))
    with pytest.raises(TableMismatch, match=r"verdict 3 in .* does not follow"):
        proved(made)
    second.unlink()
    with pytest.raises(TableMismatch, match=r"verdict 2 in .* does not follow"):
        proved(made)


def test_a_table_by_name_has_no_place_for_verdicts(made: WrittenPipeline) -> None:
    """A catalog knows where it is, and files alone are written."""
    with pytest.raises(UsageError, match="verdicts are kept beside a path"):
        verdicts.go_on(made.audit(), "lake.t", Storage())
