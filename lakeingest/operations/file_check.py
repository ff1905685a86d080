"""The check of pipeline files, offline unless it is asked to be online."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

from lakeingest import gate
from lakeingest.config import PipelineConfig, contract, hiding, places, record_notices
from lakeingest.config import file as pipeline_file
from lakeingest.config.per_topic import PerTopic
from lakeingest.errors import PipelineFileError
from lakeingest.operations.results.pipeline_file import FileCheck

_Config: TypeAlias = PipelineConfig | PerTopic


def check(files: Sequence[Path], *, online: bool) -> FileCheck:
    """Find every mistake of pipeline files.

    Args:
        online: whether Kafka is asked for the topics, and the registry for its levels.

    Raises:
        RegistryUnreachable, RegistryRefused: the registry cannot be asked.
    """
    checked, configs = [], []
    for file in files:
        problems: tuple[str, ...] = ()
        notices: list[str] = []
        try:
            config = pipeline_file.read_any(file, os.environ)
            # A mistake that comes late does not take back the notices before it.
            notices.extend(_notices(config, online=online))
            configs.append(config)
        except PipelineFileError as error:
            problems = error.problems
        checked.append({"file": str(file), "ok": not problems, "problems": problems, "notices": notices})
    return FileCheck(tuple(checked), tuple(_clashes(configs)))


def _notices(config: _Config, *, online: bool) -> Iterator[str]:
    if isinstance(config, PerTopic):
        yield f"a pipeline for each topic that {config.pattern.pattern!r} matches"
    pipeline = config.example if isinstance(config, PerTopic) else config
    yield from record_notices.texts_as_times(pipeline.columns, pipeline.partition)
    yield from record_notices.types_of_record(pipeline.decode, pipeline.compatibility)
    yield from hiding.notices(pipeline.decode, pipeline.compatibility, pipeline.quarantine, pipeline.steps)
    yield from contract.notices(pipeline.contract, pipeline.trigger)
    if (suite := gate.load(pipeline)) is not None:
        counts = f"{len(suite.refusing)} of {len(suite.rules)} expectations"
        yield f"gate {suite.name}: {counts} set single records aside"
    if online:
        from lakeingest.operations import online as servers

        yield from servers.topics(config)
        yield from servers.disagreements(pipeline)


def _clashes(configs: Sequence[_Config]) -> Iterator[str]:
    """Tables of two pipelines in one place; two that write one main table are none: each runs in its own process."""
    alone = [each for each in configs if isinstance(each, PipelineConfig)]
    topics = sorted({topic for each in alone for topic in each.source.topics})
    for each in configs:
        if isinstance(each, PerTopic):
            # Which topics there are besides, Kafka says.
            alone += [each.of(topic) for topic in topics if each.pattern.fullmatch(topic)]
    for one, other in combinations(alone, 2):
        for clash in places.clashes(one, other):
            if not places.shares_table(clash, one, other):
                yield f"{clash.text}; {clash.cure}"
