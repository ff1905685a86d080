"""Which commits the rows of a table's files come from, as the actions of its log tell it.

A commit that adds files, and takes none away, made their rows. OPTIMIZE moves rows within a partition of the table from
some files to others: as many as Delta counts in the files that it took away are in those that it added. Whatever else
changes files is followed no further.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from lakeingest.delta.reader.log import DataFile, OfflineLog, Unreadable, actions, file_of, reading


@dataclass(frozen=True)
class RowGroup:
    """Files of a table that share their rows' commits.

    Attributes:
        files: those that the table has now.
        versions: the commits that made rows of theirs.
        is_exact: whether the files have each row that these commits made, once, and no other: as the log tells it.
    """

    files: Sequence[DataFile]
    versions: frozenset[int]
    is_exact: bool


def of(log: OfflineLog, oldest: int) -> list[RowGroup]:
    """The groups of all files that the table has.

    Args:
        oldest: the first version behind which no commit is missing.

    Raises:
        Unreadable: the log cannot be read.
    """
    trace, newest = _Trace(), log.state.version
    with reading(log.identifier):
        for version, text in zip(range(oldest, newest + 1), log.texts_behind(oldest - 1), strict=False):
            trace.follow(version, text)
    return trace.groups(log.state.files)


class _Trace:
    """Files by their paths, and versions, joined where rows went from one to the other."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}
        self._doubtful = set[Hashable]()
        self._added: dict[str, DataFile] = {}

    def follow(self, version: int, text: str) -> None:
        """Take in what a commit did."""
        info, added, removed = dict[str, Any](), list[dict[str, Any]](), list[dict[str, Any]]()
        for kind, action in actions(text):
            if kind == "commitInfo":
                info = action
            elif kind in ("add", "remove"):
                (added if kind == "add" else removed).append(action)
        moves_rows = info.get("operation") == "OPTIMIZE" and not any(each["dataChange"] for each in (*added, *removed))
        files, paths = [file_of(action) for action in added], [unquote(action["path"]) for action in removed]
        if moves_rows:
            self._move(version, files, paths)
        else:
            for file, action in zip(files, added, strict=True):
                self._join(version, file.path)
                if paths or not action["dataChange"]:
                    self._doubtful.add(version)
            self._doubtful.update(paths)
        # The same file again: with other statistics, or with some of its rows taken out.
        self._doubtful.update(file.path for file in files if file.path in self._added)
        self._added.update((file.path, file) for file in files)

    def _move(self, version: int, files: Sequence[DataFile], removed: Sequence[str]) -> None:
        by_partition = defaultdict[Hashable, tuple[list[DataFile], list[DataFile]]](lambda: ([], []))
        for path in removed:
            if path in self._added:
                by_partition[_partition(self._added[path])][0].append(self._added[path])
        for file in files:
            by_partition[_partition(file)][1].append(file)
        for partition, (before, behind) in by_partition.items():
            move, count = (version, partition), rows(before)
            for file in (*before, *behind):
                self._join(move, file.path)
            if count is None or count != rows(behind):
                self._doubtful.add(move)

    def groups(self, files: Sequence[DataFile]) -> list[RowGroup]:
        by_root, versions = defaultdict[Hashable, list[DataFile]](list), defaultdict[Hashable, set[int]](set)
        for file in files:
            by_root[self._root(file.path)].append(file)
        for node in [*self._parents]:
            if isinstance(node, int):
                versions[self._root(node)].add(node)
        doubtful = {self._root(each) for each in self._doubtful}
        return [
            RowGroup(each, frozenset(versions[root]), root not in doubtful and not any(file.masked for file in each))
            for root, each in by_root.items()
        ]

    def _join(self, one: Hashable, other: Hashable) -> None:
        self._parents[self._root(one)] = self._root(other)

    def _root(self, node: Hashable) -> Hashable:
        parents = self._parents
        parents.setdefault(node, node)
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node


def rows(files: Sequence[DataFile]) -> int | None:
    """How many rows files have, as their statistics say; None where these do not."""
    try:
        return sum(int(file.statistics["numRecords"]) for file in files)
    except Unreadable:
        return None


def _partition(file: DataFile) -> Hashable:
    return frozenset(file.partition.items())
