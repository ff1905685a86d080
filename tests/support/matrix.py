"""The Spark of another version than the pinned one: its jars, and the environment that its tests run in."""

from __future__ import annotations

from pathlib import Path

from lakeingest.local import artifacts
from lakeingest.spark import jvm


def jars(listing: Path) -> list[str]:
    """The files of a list of one group, which is named like the version; and lakeingest's own."""
    text = listing.read_text()
    (group,) = (line.strip("[]") for line in text.splitlines() if line.startswith("["))
    return [str(jar) for jar in (*artifacts.fetch(group, listing=text), jvm.JAR)]
