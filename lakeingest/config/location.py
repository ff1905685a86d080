"""Locations of tables: the paths that a file may hold, and those that are one place under several names.

As Hadoop reads them: //, . and a / at the end mean nothing, s3 and s3n are the object store of s3a, and %20 is these
three characters.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from lakeingest.errors import UsageError

S3 = ("s3a", "s3", "s3n")
"""The schemes of S3; all of them go through Hadoop's S3A."""
EXPORTS = "_lakeingest_export"
"""The folder of a place of exports that holds the table of them."""
MAX_KEY = 1024
"""Bytes of the key of an object of S3."""
_WITHIN = 200
"""Bytes of a key within a table, without its partitions: the names of files of its log, and of data files."""
_NO_PATH = re.compile(r"[\x00-\x1f\x7f'\"`\\$*?\[\]{};]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """A path in its parts.

    Attributes:
        scheme: as it is written; empty for a local path without one.
        bucket: the bucket; empty for a local path.
        steps: the folders, from the uppermost one.
    """

    scheme: str
    bucket: str
    steps: tuple[str, ...]

    @property
    def on_s3(self) -> bool:
        return self.scheme in S3

    def meets(self, other: Place) -> bool:
        """Whether one is the other, or lies within it."""
        shared = min(len(self.steps), len(other.steps))
        return self._root == other._root and self.steps[:shared] == other.steps[:shared]

    def same(self, other: Place) -> bool:
        """Whether both are one place."""
        return self._root == other._root and self.steps == other.steps

    @property
    def _root(self) -> tuple[bool, str]:
        return self.on_s3, self.bucket


def is_path(identifier: str) -> bool:
    """Whether a table is known by its path; else it is by the name that a catalog has for it, which has no slash."""
    return "/" in identifier


def one_place(one: str, other: str) -> bool:
    """Whether two tables are the same, or lie within each other, as far as two paths, or two names, tell."""
    if is_path(one) and is_path(other):
        return _real(one).meets(_real(other))
    if is_path(one) or is_path(other):
        # Where a catalog puts a table, the session says.
        return False
    # Which catalog a name without one is in, the session says.
    pairs = zip(reversed(one.lower().split(".")), reversed(other.lower().split(".")), strict=False)
    return all(part == same for part, same in pairs)


def same_table(one: str, other: str) -> bool:
    """Whether two paths, or two names, are of one table, however a path is spelt."""
    return _real(one).same(_real(other)) if is_path(one) and is_path(other) else one == other


def parents(path: str) -> list[str]:
    """The folders that a path lies within and in which a table, or exports, may be, the nearest first; of local ones,
    those with a log.
    """
    of = _real(path)
    root = f"{of.scheme}://{of.bucket}" if of.on_s3 else ""
    folders = ["/".join((root, *of.steps[:end])) for end in range(len(of.steps) - 1, 0, -1)]
    return folders if of.on_s3 else [each for each in folders if _has_log(Path(each))]


def _has_log(folder: Path) -> bool:
    return any((folder / log).is_dir() for log in ("_delta_log", EXPORTS))


def _real(path: str) -> Place:
    """The parts of a path; of a local one, of what its symbolic links lead to."""
    of = place(path)
    if of.on_s3:
        return of
    return replace(of, steps=place(os.path.realpath("/" + "/".join(of.steps))).steps)


def place(path: str) -> Place:
    """The parts of a path, which need not be one that may stand in a file."""
    match = _SCHEME.fullmatch(path)
    scheme, bucket, rest = match.groups(default="") if match else ("", "", path)
    steps = tuple(step for step in rest.split("/") if step not in ("", "."))
    return Place(scheme.lower(), bucket, steps)


def checked(path: str) -> str:
    """The path as it is, if a table may lie there.

    Raises:
        ValueError: with what is wrong, and the cure.
    """
    if not path.strip():
        raise ValueError("empty; write a path, as in 's3a://lake/flights'")
    if strange := _NO_PATH.search(path):
        raise ValueError(f"holds the character {strange[0]!r}, which no table's path may have; write another path")
    address = place(path)
    if ".." in address.steps:
        raise ValueError("leads upwards with ..; write where it leads to")
    if address.on_s3:
        _check_s3(path, address)
    elif address.scheme not in ("", "file") or address.bucket:
        raise ValueError(
            f"{path.partition('/')[0]}// is no store that is supported; write s3a://bucket/path, or a local path from /"
        )
    elif not PurePath(path.removeprefix("file:")).is_absolute():
        raise ValueError("relative, and so another place for each process; write s3a://bucket/path, or a path from /")
    elif not address.steps:
        raise ValueError("the root itself; a table needs a folder of its own, as in '/data/flights'")
    return path


def check_option(option: str, path: str) -> None:
    """Look whether a path that an option of a command names may be one.

    Raises:
        UsageError: with what is wrong, and the cure.
    """
    try:
        checked(path)
    except ValueError as wrong:
        problem, _, cure = str(wrong).partition("; ")
        raise UsageError(f"{option} {path!r}: {problem}", cure=cure) from None


def _check_s3(path: str, address: Place) -> None:
    if not path.startswith(f"{address.scheme}://"):
        raise ValueError(f"not an address of S3; write it in lower case, as in '{address.scheme}://lake/flights'")
    if not address.bucket:
        raise ValueError(f"no bucket or path behind {address.scheme}://; write it as in 's3a://lake/flights'")
    if "@" in address.bucket or ":" in address.bucket:
        raise ValueError("holds more than a bucket before its path; write keys and endpoint under storage")
    if not address.steps:
        raise ValueError("a bucket without a path; a table needs a folder of its own, as in 's3a://lake/flights'")
    if (size := len("/".join(address.steps).encode())) > MAX_KEY - _WITHIN:
        raise ValueError(
            f"{size} bytes behind the bucket, and a key of S3 has {MAX_KEY}, with the names of files; write a path of "
            f"at most {MAX_KEY - _WITHIN}"
        )
