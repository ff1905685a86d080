"""What a shell offers behind a command: files that look like pipeline files, names to explain, parts, topics.

Cheap, as it runs with each press of Tab: no file is checked, and only brokers that answer at once are asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_DEEPEST = 4
_MOST = 5_000
"""Entries of folders that are looked at."""
_SKIPPED = ("__pycache__", "node_modules", "build", "dist")
_TIMEOUT_S = 2.0


def files(incomplete: str) -> list[str]:
    """Pipeline files in the folder that is begun, and below; behind FILE: the topics that its pattern matches."""
    name, colon, topic_start = incomplete.rpartition(":")
    if colon and Path(name).is_file():
        return [f"{name}:{topic}" for topic in _of_pattern(Path(name)) if topic.startswith(topic_start)]
    # What is written before the last slash stays as it is written, as in ./ and ../
    prefix = incomplete[: incomplete.rfind("/") + 1]
    folder = Path(prefix or ".")
    return [each for each in (f"{prefix}{file}" for file in _below(folder)) if each.startswith(incomplete)]


def _below(folder: Path) -> Iterator[str]:
    """The pipeline files in a folder and below, from there."""
    from lakeingest.config import folder as pipeline_files

    count = 0
    for path, within, names in os.walk(folder):
        relative = Path(path).relative_to(folder)
        deep = len(relative.parts) >= _DEEPEST
        within[:] = [] if deep else sorted(w for w in within if not w.startswith(".") and w not in _SKIPPED)
        count += len(within) + len(names)
        if count > _MOST:
            return
        yield from (str(relative / name) for name in sorted(names) if pipeline_files.looks_like_one(Path(path, name)))


def _of_pattern(file: Path) -> list[str]:
    from lakeingest.config import file as pipeline_file
    from lakeingest.config.per_topic import PerTopic
    from lakeingest.errors import LakeingestError
    from lakeingest.ingest import endpoints
    from lakeingest.kafka.broker import Broker

    with suppress(LakeingestError):
        config = pipeline_file.read_any(file, os.environ)
        if isinstance(config, PerTopic):
            broker = Broker(config.example.source, endpoints.addresses(config.example)[0], timeout_s=_TIMEOUT_S)
            return [name for name in broker.names() if config.pattern.fullmatch(name)]
    return []


def topics(incomplete: str) -> list[str]:
    """Those of the running embedded stack."""
    from lakeingest.cli import from_topic

    return [name for name in from_topic.topics(_TIMEOUT_S) if name.startswith(incomplete)]


def names(incomplete: str) -> list[tuple[str, str]]:
    """Errors and reasons in quarantine, with what they mean."""
    from lakeingest.cli import explain

    entries = {**explain.entries(), **explain.reasons()}
    return [(each.name, each.first) for each in entries.values() if each.name.startswith(incomplete)]


def parts(incomplete: str) -> list[str]:
    """The parts of a pipeline file."""
    from lakeingest.config import options

    return [part for part in options.parts() if part.startswith(incomplete)]


def log_formats(incomplete: str) -> list[str]:
    """Those of --log-format."""
    from lakeingest.cli.watching import LOG_FORMATS

    return [each for each in LOG_FORMATS if each.startswith(incomplete)]


def formats(incomplete: str) -> list[str]:
    """Those of --output."""
    from lakeingest.cli.output import FORMATS

    return [each for each in FORMATS if each.startswith(incomplete)]
