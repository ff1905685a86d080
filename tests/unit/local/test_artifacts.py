"""What is fetched is what was pinned, once."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from lakeingest.errors import SetupError
from lakeingest.local.artifacts import Artifact, fetch, listed
from lakeingest.local.machine import java_major, need_disk

LISTING = f"""
[demo]
org.one:thing:1.0  {sha256(b"thing").hexdigest()}
org.two:thing:2.0:all@tar.gz  {sha256(b"thing").hexdigest()}
"""


class FakeMaven:
    """Serves the same content for every artifact, and remembers what it was asked for."""

    def __init__(self, content: bytes = b"thing") -> None:
        self.content = content
        self.asked: list[str] = []

    def __call__(self, artifacts: Sequence[Artifact], folder: Path) -> None:
        for artifact in artifacts:
            self.asked.append(artifact.file)
            (folder / artifact.file).write_bytes(self.content)


def test_files_come_in_the_order_of_the_list(tmp_path: Path) -> None:
    """A class path has an order, so the files have the list's."""
    files = fetch("demo", cache=tmp_path, listing=LISTING, download=FakeMaven())
    assert [file.name for file in files] == ["org.one__thing-1.0.jar", "org.two__thing-2.0-all.tar.gz"]
    assert all(file.read_bytes() == b"thing" for file in files)


def test_what_is_in_the_cache_is_not_fetched_again(tmp_path: Path) -> None:
    """A second start needs no network."""
    maven = FakeMaven()
    for _ in range(2):
        fetch("demo", cache=tmp_path, listing=LISTING, download=maven)
    assert len(maven.asked) == 2


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"thin")])
def test_only_what_is_missing_or_damaged_is_fetched_again(tmp_path: Path, damage: object) -> None:
    """A file that was deleted or cut short heals by itself, and the others stay."""
    maven = FakeMaven()
    first, second = fetch("demo", cache=tmp_path, listing=LISTING, download=maven)
    assert callable(damage)
    damage(second)
    fetch("demo", cache=tmp_path, listing=LISTING, download=maven)
    assert maven.asked == [first.name, second.name, second.name]
    assert second.read_bytes() == b"thing"


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    """A wrong hash stops with file and both hashes, and leaves nothing behind that could be run."""
    with pytest.raises(SetupError) as refused:
        fetch("demo", cache=tmp_path, listing=LISTING, download=FakeMaven(b"other"))
    for part in ("org.one__thing-1.0.jar", sha256(b"thing").hexdigest(), sha256(b"other").hexdigest()):
        assert part in str(refused.value)
    assert [path for path in tmp_path.rglob("*") if path.name.endswith((".jar", ".gz"))] == []


def test_a_download_that_brings_nothing_tells_of_the_network(tmp_path: Path) -> None:
    """Without a network the cure says so."""
    with pytest.raises(SetupError, match="Maven Central"):
        fetch("demo", cache=tmp_path, listing=LISTING, download=lambda artifacts, folder: None)


@pytest.mark.parametrize(("group", "count"), [("spark", 45), ("kafka", 46), ("registry", 1)])
def test_the_shipped_list_pins_every_file_once(group: str, count: int) -> None:
    """The list that ships can be read, and no two of its lines fall on one file."""
    assert len({artifact.file for artifact in listed(group)}) == count


def test_a_line_that_pins_nothing_is_an_error() -> None:
    """A hash that was forgotten must not mean "any file"."""
    with pytest.raises(ValueError, match=r"org\.one:thing"):
        listed("demo", "[demo]\norg.one:thing:1.0\n")


@pytest.mark.parametrize(
    ("answer", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('openjdk version "24" 2025-03-18', 24),
        ('Picked up JAVA_TOOL_OPTIONS: -Da=b\nopenjdk version "11.0.2"', 11),
        ("Unable to locate a Java Runtime", None),
    ],
)
def test_java_versions_are_read(answer: str, major: int | None) -> None:
    """Old and new ways of numbering Java are understood."""
    assert java_major(answer) == major


def test_too_little_disk_is_refused(tmp_path: Path) -> None:
    """A full disk is told before anything is written, even for a folder that is not there yet."""
    with pytest.raises(SetupError, match="GiB are needed"):
        need_disk(tmp_path / "not" / "yet", least=10**18)
