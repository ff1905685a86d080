"""From the configuration of a Kafka Connect sink to pipeline files. Start reading at `translate`.

document → sinks (Confluent's names) → rules and smt, what needs a function → outcomes, all others by a table → written
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeingest.config import written
from lakeingest.config.variables import TOPIC
from lakeingest.errors import UsageError
from lakeingest.operations.connect import outcomes, rules, sinks, smt, source_rules, storage_rules
from lakeingest.operations.connect.document import read
from lakeingest.operations.connect.translation import ConnectorOption, Translation

__all__ = ["ConnectorOption", "Imported", "read", "translate"]


@dataclass(frozen=True)
class Imported:
    """The pipeline files that a connector's configuration became.

    Attributes:
        files: name of a file → its text, a pipeline file; one for each topic, or one for all by a pattern.
        options: what became of each option, those first that need somebody's attention.
        missing: option of the pipeline file → why it cannot be known from the configuration.
        environment: the variables that the files ask for.
        source: the values of `source` in the files, without the topics.
        group: the consumer group of the connector.
        topics: the topics' names, or a pattern that matches each of them.
    """

    files: Mapping[str, str]
    options: tuple[ConnectorOption, ...]
    missing: Mapping[str, str]
    environment: tuple[str, ...]
    source: Mapping[str, Any]
    group: str
    topics: tuple[str, ...]

    def reads(self, topic: str) -> bool:
        """Whether the connector reads a topic."""
        return topic in self.topics or any(re.fullmatch(pattern, topic) for pattern in self.topics)

    @property
    def whole(self) -> bool:
        """Whether nothing is impossible or unknown."""
        return not any(option.outcome in ("impossible", "unknown") for option in self.options)


_ATTENTION = ("unknown", "impossible", "changed", "carried", "ignored")


def translate(
    options: Mapping[str, str],
    worker: Mapping[str, str] | None = None,
    *,
    start: Mapping[str, Mapping[int, int]] | None = None,
    columns: Mapping[str, str] | None = None,
) -> Imported:
    """The pipeline files of a connector, and what became of each of its options.

    Args:
        options: the connector's, as `read` gives them.
        worker: those of the Connect worker, whose converters and brokers hold where the connector names none.
        start: topic → partition → the offset at which the table begins.
        columns: topic → the columns of its JSON values, as DDL.

    Raises:
        UsageError: it is no sink that is known, or has no topics.
    """
    sink = sinks.of(options)
    t = sinks.begin(sink, options, worker or {})
    group = t.get("consumer.override.group.id") or f"connect-{t.get('name')}"
    topics = tuple(each.strip() for each in t.get("topics", t.get("topics.regex")).split(","))
    t.tell("connector.class", "ignored", why=f"{sink.title}; lakeingest takes its place")
    smt.translate(t)
    rules.decode(t)
    rules.schema(t)
    rules.partition(t)
    rules.trigger(t)
    rules.errors(t)
    storage_rules.table(t)
    source_rules.source(t)
    source = {**t.file["source"], "topics": ["any"]}
    if start:
        t.set("source.start", start, f"Where the consumer group {group} stood.")
    files = _files(t, sink.title, columns or {})
    outcomes.of_others(t)
    by_attention = sorted(t.outcomes, key=lambda option: _ATTENTION.index(option.outcome))
    return Imported(files, tuple(by_attention), t.missing, tuple(t.environment), source, group, topics)


def _files(t: Translation, sink: str, columns: Mapping[str, str]) -> dict[str, str]:
    """One file for a topic; of several, one by a pattern where the records bring their columns, else one for each."""
    name = _plain(t.get("name")) or "imported"
    topics = list(dict.fromkeys(each.strip() for each in t.get("topics").split(",") if each.strip()))
    pattern = t.text("topics.regex")
    if not topics and not pattern:
        raise UsageError("neither topics nor topics.regex: a sink reads at least one topic", cure="name the topics")
    several = bool(pattern) or len(topics) > 1
    apart = not pattern and len(topics) > 1 and "schema.columns" in t.missing
    t.tell("name", "carried" if not several else "changed", "name", "a pipeline for each topic" if several else "")
    if apart:
        t.tell("topics", "changed", "source.topics", "a file for each topic: each has columns of its own")
    elif several:
        for option in ("topics", "topics.regex"):
            t.tell(option, "carried", "source.topics.pattern", "a pipeline and a table for each topic")
    t.tell("topics", "carried", "source.topics")
    if several and not apart:
        alternatives = pattern or "|".join(re.escape(topic) for topic in topics)
        return {f"{name}.yaml": _written(t, sink, f"{name}-{TOPIC}", {"pattern": alternatives}, place=TOPIC)}
    texts_by_file = {}
    for topic in topics:
        pipeline_name = f"{name}-{_plain(topic)}" if apart else name
        place = t.routed or topic
        texts_by_file[f"{pipeline_name}.yaml"] = _written(
            t, sink, pipeline_name, [topic], place=place, columns=columns.get(topic, "")
        )
    if columns.keys() >= set(topics):
        t.missing.pop("schema.columns", None)
    return texts_by_file


def _plain(text: str) -> str:
    """A text as part of a file's name, and of a pipeline's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")


def _written(t: Translation, sink: str, name: str, topics: Any, *, place: str, columns: str = "") -> str:
    """The file of one pipeline."""
    values = {**t.file, "name": name[:200], "source": {"topics": topics, **t.file["source"]}}
    if columns:
        values["schema"] = {"columns": columns, **values.get("schema", {})}
    table = {**values["table"], "path": values["table"]["path"].replace(TOPIC, place)}
    head = [f"Made by lakeingest import-confluent, from the configuration of {sink}."]
    if t.environment:
        head.append(f"Export before running: {', '.join(t.environment)}.")
    filled = ("schema.columns",) if columns else ()
    head += [f"Fill in {option}: {why}." for option, why in t.missing.items() if option not in filled]
    return written.text({**values, "table": table}, t.notes, head)
