"""What was refused and why: quarantine's records by reason, one of them, and what the gate found.

Of quarantine, a file whose rows were all refused for one reason tells how many they are, and where they begin, without
being opened: of thousands of such files no more are read than have the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from lakeingest.delta import quarantine
from lakeingest.delta.reader.contract import TableReader
from lakeingest.delta.reader.log import DataFile, Unreadable
from lakeingest.operations.read import RecordSelection, may_hold
from lakeingest.operations.readers import PipelineReader
from lakeingest.record import COORDINATES
from lakeingest.schema import ddl

Row = Mapping[str, Any]
Group = tuple[str | None, str | None]
"""Stage and reason."""
_OWN = "WHERE pipeline = :pipeline AND"
_RECORD = f"""
    SELECT {", ".join(column.name for column in ddl.parse(quarantine.COLUMNS))} FROM {{rows}}
    WHERE pipeline = :pipeline AND _topic = :topic AND _partition = :partition AND _offset = :offset
    AND moved.replay IS DISTINCT FROM {quarantine.WITHDRAWN} LIMIT 1
"""
_RESULTS = """
    WITH own AS (SELECT * FROM {rows} WHERE pipeline = :pipeline)
    SELECT * FROM own
    WHERE time IN (SELECT DISTINCT time FROM own ORDER BY time DESC LIMIT LIMIT_OF_BATCHES)
    ORDER BY time DESC, expectation NULLS FIRST
"""


def reasons(reader: PipelineReader, samples: int) -> list[dict[str, Any]]:
    """See `Pipeline.quarantined`."""
    table, pipeline = reader.quarantine, reader.config.known_as
    if table.files is None:
        return quarantine.by_stage(_samples(table, None, pipeline, samples), samples)
    uniform, mixed = list[_UniformFile](), list[DataFile]()
    for file in table.files:
        summary = _UniformFile.of(file, pipeline)
        uniform.append(summary) if summary else mixed.append(file)
    uniform.sort(key=lambda each: each.begin)
    if replaced := table.replaced([each.file for each in uniform]):
        raise Unreadable(f"{min(replaced)} is gone, or has another size than the log says")
    most = samples
    while True:
        opened, closed = _first(uniform, most)
        rows = _samples(table, [*mixed, *(each.file for each in opened)], pipeline, samples)
        if not any(_may_come_first(rows, each, samples) for each in closed):
            return quarantine.by_stage([*rows, *(each.row for each in closed)], samples)
        most *= 4


@dataclass(frozen=True)
class _UniformFile:
    """A file whose statistics tell all that a count needs.

    Attributes:
        begin: coordinates that none of its rows comes before.
    """

    file: DataFile
    group: Group
    begin: tuple[Any, ...]

    @classmethod
    def of(cls, file: DataFile, pipeline: str) -> _UniformFile | None:
        try:
            stage, reason, owner = (file.only(name) for name in ("stage", "reason", "pipeline"))
            least = file.statistics.get("minValues", {})
            begin = tuple(least.get(name) for name in COORDINATES)
            bare = all(file.lacks(name) for name in ("expectations", "moved", "discarded"))
        except Unreadable:
            return None
        whole = bare and stage is not None and reason is not None and owner == pipeline and None not in begin
        return cls(file, (stage, reason), begin) if whole else None

    @property
    def row(self) -> Row:
        """What it adds to a count: see `quarantine.by_stage`."""
        return {
            "stage": self.group[0],
            "reason": self.group[1],
            "count": self.file.statistics["numRecords"],
            "number": None,
        }


def _first(files: Iterable[_UniformFile], most: int) -> tuple[list[_UniformFile], list[_UniformFile]]:
    """The first so many files of each group, and all the others."""
    first, more, count = list[_UniformFile](), list[_UniformFile](), dict[Group, int]()
    for each in files:
        at = count[each.group] = count.get(each.group, 0) + 1
        (first if at <= most else more).append(each)
    return first, more


def _samples(table: TableReader, files: Sequence[DataFile] | None, pipeline: str, samples: int) -> list[dict[str, Any]]:
    """Of each group the first rows, with the count of all."""
    return table.scan(quarantine.SAMPLES.replace("WHERE", _OWN, 1), files=files, pipeline=pipeline, samples=samples)


def _may_come_first(rows: Sequence[Row], closed: _UniformFile, samples: int) -> bool:
    """Whether a file that was not read may have one of the first rows of its group."""
    same = [row for row in rows if (row["stage"], row["reason"]) == closed.group]
    return samples > 0 and (
        len(same) < samples or closed.begin <= tuple(same[samples - 1][name] for name in COORDINATES)
    )


def record(reader: PipelineReader, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
    """See `Pipeline.quarantined_record`."""
    table, selection = reader.quarantine, RecordSelection(topic, partition, offset, offset + 1)
    files = None if table.files is None else [file for file in table.files if may_hold(file, selection, "key")]
    place = {"pipeline": reader.config.known_as, "topic": topic, "partition": partition, "offset": offset}
    rows = table.scan(_RECORD, files=files, **place)
    return {name: _plain(value) for name, value in rows[0].items()} if rows else None


def gate_results(reader: PipelineReader, batches: int) -> list[dict[str, Any]]:
    """See `Pipeline.results`."""
    table = reader.results
    for files, behind in _newest_first(table, batches):
        text = _RESULTS.replace("LIMIT_OF_BATCHES", str(batches))
        rows = table.scan(text, files=files, pipeline=reader.config.known_as)
        times = {row["time"] for row in rows}
        # Statistics have whole milliseconds; what they cut off may not decide.
        if behind is None or (len(times) == batches and min(times) > behind + timedelta(milliseconds=1)):
            break
    return [{**row, "time": _plain(row["time"])} for row in rows]


def _newest_first(table: TableReader, batches: int) -> Iterator[tuple[Sequence[DataFile] | None, datetime | None]]:
    """The files with the newest results, more and more of them; and the newest time of all the others, None if there
    are none.
    """
    if table.files is None:
        yield None, None
        return
    ends = [str(file.statistics.get("maxValues", {}).get("time")) for file in table.files]
    if not all(end.endswith("Z") for end in ends):
        raise Unreadable("its statistics have no times in UTC")
    newest = sorted(zip(ends, table.files, strict=True), key=itemgetter(0), reverse=True)
    count = 2 * batches
    while True:
        behind = [datetime.fromisoformat(end) for end, _ in newest[count : count + 1]]
        yield [file for _, file in newest[:count]], behind[0] if behind else None
        count *= 4


def _plain(value: Any) -> Any:
    """A value with the times in it in the zone of this process, without its name, as Spark gives them to Python."""
    match value:
        case datetime():
            return value.astimezone().replace(tzinfo=None)
        case dict():
            return {name: _plain(each) for name, each in value.items()}
    return value
