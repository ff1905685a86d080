"""The audit that opens no file whose rows the log proves: what it finds, and what it says that it has not read."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from support.tables import Places, WrittenPipeline, remove, without_files

from lakeingest.delta.reader.log import Unreadable


def clean(folder: Path) -> WrittenPipeline:
    """Three batches of a partitioned table, each in two files; the last one's sums are not in the log yet."""
    made = WrittenPipeline(folder, partitioned="day")
    made.batch({0: 10, 1: 10}, files=2, day="1")
    made.batch({0: 20, 1: 20}, files=2, day="2", refused={(0, 12), (1, 19)})
    made.batch({0: 30, 1: 20}, files=2, day="3")
    return made


def test_only_the_newest_batch_is_read(tmp_path: Path) -> None:
    """The others are known by their sums, those too that brought records to quarantine; and the report says so."""
    made = clean(tmp_path)
    report = made.audit()
    assert (report.conserved, report.table, report.quarantine, report.summed) == (True, 48, 2, 2)
    assert (report.files_by_log, report.files_read) == (4, 2)
    assert "proved by the log, whose contents were not read: --deep reads all" in "\n".join(map(str, report.text))
    for file in made.main.files[:4]:
        (made.main.folder / file).write_bytes(b"x" * (made.main.folder / file).stat().st_size)
    assert made.audit() == report
    with pytest.raises(Unreadable):
        made.audit(deep=True)


def test_a_batch_with_dropped_records_is_read(tmp_path: Path) -> None:
    """No receipt says which they are; nor which offsets of a transaction are none."""
    made = WrittenPipeline(tmp_path)
    made.batch({0: 10}, dropped={(0, 3)})
    made.batch({0: 20}, holes={(0, 19)})
    made.batch({0: 30})
    made.batch({0: 40})
    report = made.audit()
    assert (report.conserved, report.files_by_log, report.files_read) == (True, 1, 3)
    assert without_files(report) == made.audit(deep=True)


def test_compaction_loses_no_proof(tmp_path: Path) -> None:
    """OPTIMIZE of several batches, twice; a partition with the newest batch, whose sums nobody knows, is read."""
    made = clean(tmp_path)
    made.optimize(into=2)
    made.optimize()
    report = made.audit()
    assert (report.conserved, report.files_by_log, report.files_read) == (True, 2, 1)
    assert without_files(report) == made.audit(deep=True)


def test_a_clean_up_of_the_log_is_told(tmp_path: Path) -> None:
    """Files that no commit in the log has added are read, and their rows are earlier than its receipts."""
    made = clean(tmp_path)
    made.main.clean_up(1)
    report = made.audit()
    assert (report.conserved, report.earlier, report.files_by_log, report.files_read) == (True, 20, 2, 4)
    assert without_files(report) == made.audit(deep=True)


# Ten faults and more -------------------------------------------------------------------------------------------------


def first(made: WrittenPipeline) -> str:
    """A file that the log proves."""
    return made.main.files[0]


def swapped(places: Places) -> Places:
    """One row twice, and another one never."""
    rows = [*places]
    return [*rows[:-1], rows[0]]


def replace_object(made: WrittenPipeline, rows: Places) -> None:
    """Put another object in the place of the first file, behind the log's back."""
    path = made.main.write(rows, day="9")["add"]["path"]
    (made.main.folder / path).rename(made.main.folder / first(made))


def added_by_another(made: WrittenPipeline) -> None:
    made.main.commit(made.main.write([(0, 5)], day="1"))


def added_again(made: WrittenPipeline) -> None:
    """The same file, with other statistics."""
    add = made.main.adds()[first(made)]
    made.main.commit({"add": {**add, "dataChange": False}}, operation="COMPUTE STATS")


def deleted_whole(made: WrittenPipeline) -> None:
    made.main.commit(remove(made.main.adds()[first(made)]), operation="DELETE")


FAULTS: dict[str, tuple[Callable[[WrittenPipeline], object], tuple[int, int, int]]] = {
    "a DELETE of rows": (lambda m: m.rewrite(first(m), lambda rows: [*rows][1:]), (1, 0, 0)),
    "a DELETE of a file": (deleted_whole, (10, 0, 0)),
    "an UPDATE of coordinates": (lambda m: m.rewrite(first(m), swapped, "UPDATE"), (1, 1, 0)),
    "an UPDATE to what was never consumed": (
        lambda m: m.rewrite(first(m), lambda rows: [*[*rows][1:], (0, 99)], "MERGE"),
        (1, 0, 1),
    ),
    "a row by another": (added_by_another, (0, 1, 0)),
    "an OPTIMIZE that lost a row": (lambda m: m.optimize(rows=lambda rows: [*rows][1:]), (3, 0, 0)),
    "an OPTIMIZE that took a row twice": (lambda m: m.optimize(rows=lambda rows: [*rows, (0, 0)]), (0, 3, 0)),
    "nothing but other statistics": (added_again, (0, 0, 0)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_without_a_look_at_every_file(tmp_path: Path, fault: str) -> None:
    """What others did to files, the log says; these files are read, and those that share batches with them."""
    made = clean(tmp_path)
    do, expected = FAULTS[fault]
    do(made)
    report = made.audit()
    assert (report.missing, report.duplicated, report.unexpected) == expected
    assert report.conserved == (expected == (0, 0, 0))
    assert without_files(report) == made.audit(deep=True)
    assert (report.files_read or 0) < len(made.main.adds()) or "OPTIMIZE" in fault


def test_a_duplicate_that_hides_a_loss_within_a_batch(tmp_path: Path) -> None:
    """As many rows as offsets, from the first to the last: the sums tell."""
    made = WrittenPipeline(tmp_path)
    made.batch({0: 10}, rows=lambda rows: [*rows[:4], rows[5], *rows[5:]])
    made.batch({0: 20})
    report = made.audit()
    assert (report.missing, report.duplicated, report.files_by_log, report.files_read) == (1, 1, 0, 2)
    assert report.altered
    assert not report.conserved


def test_an_object_of_another_size(tmp_path: Path) -> None:
    """Somebody replaced it behind the log's back."""
    made = clean(tmp_path)
    replace_object(made, [(0, 3), *((0, o) for o in range(0, 900, 9))])
    report = made.audit()
    assert not report.conserved
    (altered,) = report.altered
    assert first(made) in altered
    assert "it was replaced" in altered


def test_an_object_that_is_gone(tmp_path: Path) -> None:
    """It is read, and so it is told, as it always was."""
    made = clean(tmp_path)
    (made.main.folder / first(made)).unlink()
    with pytest.raises(Unreadable, match=r"0\.parquet"):
        made.audit()


def test_other_contents_of_the_same_size_are_said_to_be_unread(tmp_path: Path) -> None:
    """One row twice and another one never, in as many bytes: the report says that it has not looked."""
    made = clean(tmp_path)
    replace_object(made, swapped(made.main.places(first(made))))
    report = made.audit()
    assert (report.conserved, report.files_by_log) == (True, 4)
    assert "not read: --deep reads all" in "\n".join(map(str, report.text))
    deep = made.audit(deep=True)
    assert (deep.conserved, deep.missing, deep.duplicated) == (False, 1, 1)


def test_what_files_do_not_tell_is_asked_of_spark(tmp_path: Path) -> None:
    """A RESTORE, a deletion vector, a commit that is gone from the middle of the log."""
    restored, masked, holed = (clean(tmp_path / name) for name in ("r", "m", "h"))
    restored.main.commit(operation="RESTORE", operationParameters={"version": "1"})
    add = masked.main.adds()[first(masked)]
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    masked.main.commit(remove(add), {"add": {**add, "deletionVector": vector}}, operation="DELETE")
    holed.main.log(2).unlink()
    for made in (restored, masked, holed):
        with pytest.raises(Unreadable):
            made.audit()


@pytest.mark.parametrize("seed", range(30))
def test_both_ways_say_the_same(tmp_path: Path, seed: int) -> None:
    """Of histories at random: batches with everything that there is, backfills, compactions, what others did; and with
    what a verdict in between has proved.
    """
    dice = random.Random(seed)
    made = WrittenPipeline(tmp_path, partitioned="day")
    end, proved = {0: 5, 1: 3}, set[int]()
    for _ in range(dice.randrange(3, 14)):
        begin, end = end, {p: e + dice.randrange(9) for p, e in end.items()}
        each = [(p, o) for p in end for o in range(begin[p], end[p])]
        few, shuffled = len(each) // 5, dice.sample(each, len(each))
        refused, dropped, holes = (shuffled[few * at : few * at + few * (dice.random() < 0.3)] for at in range(3))
        day, files = str(dice.randrange(3)), dice.randrange(1, 4)
        made.batch(end, files=files, day=day, refused=refused, dropped=dropped, holes=holes)
        match dice.randrange(12):
            case 0 | 1:
                made.optimize(into=dice.randrange(1, 3))
            case 2:
                made.rewrite(dice.choice([*made.main.adds()]), lambda rows: [*rows][1:])
            case 3:
                made.rewrite(dice.choice([*made.main.adds()]), swapped, "UPDATE")
            case 4:
                made.main.commit(made.main.write([dice.choice([*each, (0, 999)])], day="1"))
            case 5:
                made.optimize(rows=lambda rows: [*rows][1:])
        if dice.random() < 0.2 and (report := made.audit(proved=proved)).conserved:
            proved |= set(report.batches)
    deep = made.audit(deep=True)
    assert without_files(made.audit()) == deep
    assert without_files(made.audit(proved=proved)) == deep
