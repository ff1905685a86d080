"""Where a pipeline stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from lakeingest.config.durations import duration_text
from lakeingest.errors import number_of
from lakeingest.operations.results.html import Listing
from lakeingest.operations.results.log_position import LogPosition
from lakeingest.operations.results.showable import Showable, TextTable
from lakeingest.operations.results.words import foreign_writers, ties, words

_COMMITS = ("sequence", "version", "time", "rows", "offsets", "refused", "dropped", "writer")


@dataclass(frozen=True, repr=False)
class Status(Showable):
    """What `lakeingest status` shows. Its listings: partitions, commits, tables, contract, backfill.

    Attributes:
        partitions: one a topic-partition: topic, partition, frontier, end (offset), lag (offsets).
        commits: the newest ten: sequence, version, time, rows, offsets, refused, dropped, ties, writer.
        tables: table and quarantine: path, rows (of quarantine: the pipeline's own that no replay has moved), files,
            bytes, average_file_bytes.
        contract: one a promise: promise, promised, kept, found, by_s (see `contract.state`); empty without a contract.
        backfill: the newest commit of a backfill, if there is one among the newest of the table: sequence, version,
            time, rows, offsets, remaining (offsets that it had still to take then), writer.
        foreign_writers: who else has committed to the table, among its newest 20 commits: engine → its newest version.
        held: the batch that the gate holds, see `held.of_results`; None if none is, or the pipeline has no gate.
        maintenance: what a maintenance of the table would do: due (partitions), due_files, due_bytes; and last, when it
            was done by the newest `commits` commits: compact, vacuum. None where Spark was asked, which tells it
            dearly.
        position: of a table of change events: up to which place in the database's log it holds everything.
    """

    pipeline: str
    partitions: tuple[dict[str, Any], ...]
    commits: tuple[dict[str, Any], ...]
    tables: dict[str, dict[str, Any]]
    contract: tuple[dict[str, Any], ...] = ()
    backfill: tuple[dict[str, Any], ...] = ()
    held: dict[str, Any] | None = None
    foreign_writers: dict[str, int] = field(default_factory=dict)
    maintenance: dict[str, Any] | None = None
    position: LogPosition | None = None

    @property
    def lag(self) -> int:
        return sum(p["lag"] for p in self.partitions)

    @property
    def sequence(self) -> int:
        """Of the newest commit; 0 where there is none."""
        return self.commits[0]["sequence"] if self.commits else 0

    @property
    def headline(self) -> str:
        rows, refused = (self.tables[name]["rows"] for name in ("table", "quarantine"))
        newest = self.commits[0] if self.commits else None
        last = f"commit {newest['sequence']} at {newest['time']}" if newest else "nothing committed"
        state = f"held since {self.held['since']}, " if self.held else ""
        return (
            f"{self.pipeline}: {state}lag {self.lag:,}, {number_of(rows, 'row')} in the table, {refused:,} in "
            f"quarantine, {last}"
        )

    @property
    def listings(self) -> Mapping[str, Listing]:
        tables = [{"table": name, **size} for name, size in self.tables.items()]
        more = {"contract": self.contract, "backfill": self.backfill}
        return {"partitions": self.partitions, "commits": self.commits, "tables": tables, **more}

    def to_json(self) -> dict[str, Any]:
        data = dict(vars(self))
        pipeline, position = data.pop("pipeline"), data.pop("position")
        return {"pipeline": pipeline, "lag": self.lag, **data, **({"position": position.to_json()} if position else {})}

    @property
    def text(self) -> Iterator[str | TextTable]:
        if self.held:
            sequence, since, broken, cure = (self.held[name] for name in ("sequence", "since", "broken", "cure"))
            why = f"by {', '.join(broken)}; waiting: {number_of(self.held['waiting'], 'offset')}"
            yield f"{self.pipeline}: batch {sequence} is held since {since}, {why}"
            yield f"  cure: {cure}"
        yield TextTable(
            f"{self.pipeline}: lag {self.lag:,}",
            ("topic", "partition", "frontier", "end", "lag"),
            [
                [p["topic"], p["partition"], "—" if p["frontier"] is None else p["frontier"], p["end"], p["lag"]]
                for p in self.partitions
            ],
        )
        yield from [self.position.text] if self.position else []
        yield TextTable(
            "last commits",
            _COMMITS,
            [[commit[name] for name in _COMMITS] for commit in self.commits],
            spare=("writer", "version", "dropped", "offsets"),
        )
        if count := sum(commit["ties"] for commit in self.commits):
            yield ties(count)
        for commit in self.backfill:
            rest = f"{number_of(commit['remaining'], 'offset')} left then" if commit["remaining"] else "all was taken"
            yield f"newest commit of a backfill: {commit['sequence']} at {commit['time']}, {rest}"
        yield TextTable(
            "tables",
            ("", "path", "rows", "files", "MB", "average MB"),
            [
                [name, t["path"], f"{t['rows']:,}", t["files"], _mb(t["bytes"]), _mb(t["average_file_bytes"])]
                for name, t in self.tables.items()
            ],
        )
        if self.foreign_writers:
            yield f"the table: {foreign_writers(self.foreign_writers)}"
        if self.maintenance:
            yield _maintenance(self.maintenance)
        if self.contract:
            rows = [[c["promise"], c["promised"], _verdict(c), c["found"]] for c in self.contract]
            yield TextTable("contract", ("promise", "promised", "kept", "found"), rows)


def _maintenance(of: Mapping[str, Any]) -> str:
    files, partitions = number_of(of["due_files"], "small file"), number_of(of["due"], "partition")
    due = f"{files} in {partitions} are due" if of["due"] else "nothing is due"
    names = {"compact": "compaction", "vacuum": "VACUUM"}
    none = f"none among the newest {of['commits']} commits"
    last = [f"last {names[task]} {time}" for task, time in of["last"].items() if time]
    return f"maintenance: {due}; {', '.join(last) or none}"


def _verdict(promise: Mapping[str, Any]) -> str:
    if promise["kept"] is False:
        late_by = timedelta(seconds=round(promise["by_s"]))
        return f"no, by {duration_text(late_by)}" if late_by else "no"
    return words(promise["kept"])


def _mb(size: int) -> str:
    return f"{size / 1e6:.2f}"
