"""A pipeline file that is for many topics: a pipeline, and a table, for each topic that a pattern matches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakeingest.config.base import Mistake
from lakeingest.config.pipeline import PipelineConfig
from lakeingest.config.variables import TOPIC

EXAMPLE = "topic"
"""Stands for any topic, where a file is checked before one is known."""


@dataclass(frozen=True)
class PerTopic:
    """A pipeline for each topic that a pattern matches.

    Attributes:
        name: the name of the pipelines, with `{topic}` in it.
        pattern: matches the whole name of each topic.
        example: the pipeline of a topic called "topic".
        of: the pipeline of a topic; raises PipelineFileError where the file is wrong for it.
    """

    name: str
    pattern: re.Pattern[str]
    example: PipelineConfig
    of: Callable[[str], PipelineConfig]


def pattern(data: Any, mistakes: list[Mistake]) -> re.Pattern[str] | None:
    """The pattern of the topics, as the values of a file have it; None if the file names its topics.

    Args:
        mistakes: gets what is wrong, which is no pattern, or has no `{topic}` where each topic needs its own.
    """
    source = data.get("source") if isinstance(data, Mapping) else None
    topics = source.get("topics") if isinstance(source, Mapping) else None
    if not isinstance(topics, Mapping):
        return None
    mistakes += _shared(data)
    where = ("source", "topics")
    if isinstance(source, Mapping) and "table" in source:
        mistakes.append(
            Mistake(where, "a pattern is for Kafka's topics; name those of source.table, or leave them out")
        )
    if set(topics) != {"pattern"}:
        mistakes.append(Mistake(where, "write a list of topics, or a pattern alone, as in {pattern: 'orders-.*'}"))
    try:
        return re.compile(topics.get("pattern", ""))
    except (re.error, TypeError) as error:
        text = f"{json.dumps(topics['pattern'])} is no regular expression: {error}; write one as in 'orders-.*'"
        mistakes.append(Mistake((*where, "pattern"), text))
        return re.compile("")


def of_one(source: Mapping[str, Any], topic: str) -> dict[str, Any]:
    """`source` for one topic, with its own offsets to start at."""
    start = source.get("start")
    start_of_topic = (
        {"start": {topic: start[topic]} if topic in start else "earliest"} if isinstance(start, Mapping) else {}
    )
    return {**source, **start_of_topic, "topics": [topic]}


def _shared(data: Mapping[str, Any]) -> Iterator[Mistake]:
    """Mistakes: values that all topics' pipelines would share; they may share a quarantine."""
    for path in (("name",), ("renamed_from",), ("table", "path"), ("table", "name")):
        value: Any = data
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else None
        if isinstance(value, str) and TOPIC not in value:
            yield Mistake(
                path,
                f'"{value}" would be the same for each topic that the pattern matches; write {TOPIC} in it, '
                f'as in "{value.rstrip("/")}_{TOPIC}"',
            )
