"""The tables of a pipeline, written by hand as a run leaves them: Parquet files, logs, receipts and their sums."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from lakeingest.config import Storage
from lakeingest.config.file import from_mapping
from lakeingest.delta import sums
from lakeingest.delta.receipt import Account, Counts, Receipt, Run, of_backfill
from lakeingest.delta.sums import BatchSums, Sums
from lakeingest.operations import audit
from lakeingest.operations.readers import FileTables
from lakeingest.operations.results.audit import Report
from lakeingest.record import OffsetRange, OffsetRanges

TOPIC = "t"
Places = Iterable[tuple[int, int]]
"""Partitions and offsets."""
_SHAPE = pa.schema([("_topic", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64()), ("n", pa.int64())])
_TYPES = {"_topic": "string", "_partition": "integer", "_offset": "long", "n": "long"}

_TEXTS = pa.map_(pa.string(), pa.string())
_CHECKPOINT = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "format": pa.struct({"provider": pa.string()}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _TEXTS,
                "createdTime": pa.int64(),
            }
        ),
        "add": pa.struct(
            {
                "path": pa.string(),
                "size": pa.int64(),
                "partitionValues": _TEXTS,
                "stats": pa.string(),
                "deletionVector": pa.struct({"storageType": pa.string()}),
            }
        ),
    }
)


class WrittenTable:
    """One Delta table."""

    def __init__(self, folder: Path, partitioned: str | None = None, **more: str) -> None:
        self.folder, self.more, self.version = folder, more, -1
        self._lines: dict[int, list[Mapping[str, Any]]] = {}
        fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in self._types(partitioned).items()]
        metadata = {
            "id": folder.name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [partitioned] if partitioned else [],
            "configuration": {},
            "createdTime": 1,
        }
        (folder / "_delta_log").mkdir(parents=True)
        self.commit(
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": metadata},
            operation="CREATE TABLE",
        )

    def _types(self, partitioned: str | None) -> dict[str, str]:
        return {**_TYPES, **dict.fromkeys(self.more, "string"), **({partitioned: "string"} if partitioned else {})}

    def commit(self, *actions: Mapping[str, Any], operation: str = "WRITE", **info: Any) -> int:
        """Commit actions, and give the version."""
        self.version += 1
        told = {"timestamp": self.version, "operation": operation, "operationParameters": {}, **info}
        lines = [{"commitInfo": told}, *actions]
        self._lines[self.version] = lines
        self.log(self.version).write_text("\n".join(json.dumps(each) for each in lines))
        return self.version

    def log(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020}.json"

    def write(self, places: Places, *, n: int = 0, **partition: str) -> dict[str, Any]:
        """Write a file of rows, and give the `add` that names it."""
        rows = [*places]
        columns = [[TOPIC] * len(rows), [p for p, _ in rows], [o for _, o in rows], [n] * len(rows)]
        table = pa.Table.from_arrays(
            [pa.array(c, k) for c, k in zip(columns, _SHAPE.types, strict=True)], schema=_SHAPE
        )
        for name, value in self.more.items():
            table = table.append_column(name, pa.array([value] * len(rows), pa.string()))
        path = "".join(f"{name}={value}/" for name, value in partition.items()) + f"{len(self.files)}.parquet"
        (self.folder / path).parent.mkdir(exist_ok=True)
        parquet.write_table(table, self.folder / path)
        return {"add": self._add(path, partition, columns[1:3])}

    def _add(self, path: str, partition: Mapping[str, str], columns: Sequence[list[int]]) -> dict[str, Any]:
        names = ("_partition", "_offset")
        ends = {"minValues": min, "maxValues": max}
        filled = [(name, values) for name, values in zip(names, columns, strict=True) if values]
        stats = {end: {name: pick(values) for name, values in filled} for end, pick in ends.items()}
        stats = {"numRecords": len(columns[0]), **stats, "nullCount": dict.fromkeys(names, 0)}
        size = (self.folder / path).stat().st_size
        return {
            "path": path,
            "size": size,
            "partitionValues": dict(partition),
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps(stats),
        }

    def clean_up(self, version: int) -> None:
        """Write a checkpoint of this version, and delete the commits up to it."""
        rows = list[dict[str, Any]]()
        for each in range(version + 1):
            for line in self._lines[each]:
                for kind, action in line.items():
                    if kind == "add":
                        rows.append({"add": {**action, "partitionValues": [*action["partitionValues"].items()]}})
                    elif kind in ("protocol", "metaData"):
                        rows.append({kind: {**action, "configuration": []} if kind == "metaData" else action})
            self.log(each).unlink(missing_ok=True)
        checkpoint = pa.Table.from_pylist(rows, _CHECKPOINT)
        parquet.write_table(checkpoint, self.log(version).with_suffix(".checkpoint.parquet"))
        (self.folder / "_delta_log" / "_last_checkpoint").write_text(json.dumps({"version": version}))

    @property
    def files(self) -> list[str]:
        return sorted(str(file.relative_to(self.folder)) for file in self.folder.rglob("*.parquet"))

    def adds(self) -> dict[str, dict[str, Any]]:
        """Path → the `add` of each file that the table has."""
        current = {}
        for lines in self._lines.values():
            for line in lines:
                for kind, action in line.items():
                    if kind == "add":
                        current[action["path"]] = action
                    elif kind == "remove":
                        current.pop(action["path"], None)
        return current

    def places(self, path: str) -> list[tuple[int, int]]:
        """Partitions and offsets of a file's rows."""
        rows = parquet.read_table(self.folder / path, partitioning=None)
        return [*zip(rows["_partition"].to_pylist(), rows["_offset"].to_pylist(), strict=True)]


def remove(add: Mapping[str, Any], *, changes: bool = True) -> dict[str, Any]:
    """The action that takes a file away."""
    return {"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": changes}}


class WrittenPipeline:
    """A pipeline and its two tables.

    Args:
        partitioned: a column of the table by which it is partitioned.
    """

    def __init__(self, folder: Path, *, partitioned: str | None = None) -> None:
        self.main = WrittenTable(folder / "t", partitioned)
        self.quarantine = WrittenTable(folder / "t_quarantine", pipeline="p")
        self._before: dict[str, BatchSums] = {}
        self._ranges: dict[str, dict[int, int]] = {}
        values = {
            "name": "p",
            "source": {"topics": [TOPIC], "bootstrap_servers": "nowhere:1"},
            "schema": {"columns": "n BIGINT"},
            "table": {"path": str(folder / "t")},
        }
        self.config = from_mapping(values)

    @property
    def reader(self) -> FileTables:
        return FileTables(self.config, Storage())

    def audit(self, *, deep: bool = False, proved: Collection[int] = ()) -> Report:
        return audit.audit(self.reader, deep=deep, proved=proved)

    def batch(
        self,
        ends: Mapping[int, int],
        *,
        refused: Collection[tuple[int, int]] = (),
        dropped: Collection[tuple[int, int]] = (),
        holes: Collection[tuple[int, int]] = (),
        rows: Callable[[list[tuple[int, int]]], list[tuple[int, int]]] = lambda rows: rows,
        files: int = 1,
        backfill: Mapping[int, int] | None = None,
        **partition: str,
    ) -> int:
        """Commit a batch up to these ends of partitions, and give its version.

        Args:
            rows: what makes of the accepted coordinates those that are written, and summed up.
            files: the rows are dealt out to so many.
            backfill: where a backfill's batch begins, instead of the run's.
        """
        name = "p" if backfill is None else of_backfill("p")
        begins = self._ranges.setdefault("p", {}) if backfill is None else backfill
        ranges = OffsetRanges(tuple(OffsetRange(TOPIC, p, begins.get(p, 0), end) for p, end in ends.items()))
        each = [(s.partition, o) for s in ranges for o in range(s.start, s.end) if (s.partition, o) not in holes]
        accepted = rows([place for place in each if place not in refused and place not in dropped])
        before = self._before.get(name)
        number = before.sequence + 1 if before else 1
        receipt = Receipt(name, number, Run(), "c", {TOPIC: "i"}, ranges, "q", before=before)
        adds = [self.main.write(accepted[at::files], **partition) for at in range(files)]
        version = self._commit(self.main, receipt, adds)
        table, aside = _sums(accepted), _sums(refused)
        self._before[name] = BatchSums(number, table, aside)
        if len(accepted) < ranges.offsets:
            account = Account(Counts(len(each), len(accepted), len(refused), len(dropped)), table=table)
            adds = [self.quarantine.write(refused)] if refused else []
            self._commit(self.quarantine, replace(receipt, before=None, account=account), adds)
        if backfill is None:
            begins |= ends
        return version

    def _commit(self, table: WrittenTable, receipt: Receipt, adds: Sequence[dict[str, Any]]) -> int:
        rows = sum(json.loads(each["add"]["stats"])["numRecords"] for each in adds)
        metrics = {"numOutputRows": str(rows), "numFiles": str(len(adds)), "numOutputBytes": "1"}
        return table.commit(*adds, userMetadata=receipt.to_json(), operationMetrics=metrics)

    def optimize(self, *, into: int = 1, rows: Callable[[Places], Places] = lambda rows: rows) -> None:
        """Rewrite the files of each partition into so many."""
        by_partition: dict[str, list[dict[str, Any]]] = {}
        for add in self.main.adds().values():
            by_partition.setdefault(json.dumps(add["partitionValues"]), []).append(add)
        actions = list[dict[str, Any]]()
        for partition, adds in by_partition.items():
            places = [*rows([place for add in adds for place in self.main.places(add["path"])])]
            actions += (remove(add, changes=False) for add in adds)
            for at in range(into):
                made = self.main.write(places[at::into], **json.loads(partition))
                actions.append({"add": {**made["add"], "dataChange": False}})
        self.main.commit(*actions, operation="OPTIMIZE")

    def rewrite(self, path: str, rows: Callable[[Places], Places], operation: str = "DELETE") -> None:
        """Rewrite one file, as DELETE and UPDATE do."""
        add = self.main.adds()[path]
        made = self.main.write(rows(self.main.places(path)), **add["partitionValues"])
        self.main.commit(remove(add), made, operation=operation, operationMetrics={"numDeletedRows": "1"})


def without_files(report: Report) -> Report:
    """The same, by whatever files it was told."""
    return replace(report, files_by_log=0, files_read=None, batches=())


def _sums(places: Places) -> Sums:
    return sums.of((TOPIC, partition, offset) for partition, offset in places)
