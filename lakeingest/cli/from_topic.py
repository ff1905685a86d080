"""The file that `lakeingest init --from-topic` writes: from a sample of the topic, each choice with its reason."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lakeingest.cli import starter
from lakeingest.errors import PipelineFileError, SetupError, SourceError, UsageError, number_of

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig
    from lakeingest.operations.init.sample import Sampled
    from lakeingest.schema.ledger import SchemaId

RECORDS = 500
"""The most records that are looked at."""
_LOOK = (
    "Look at each choice. `lakeingest check` finds mistakes in this file, `lakeingest plan` tells what a run would do, "
    "and `lakeingest describe` explains every option."
)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
"""Texts that one of YAML's versions reads as another type."""
_WIDTH = 112
_MOST_TOLD = 20
"""Sentences of one option."""


@dataclass(frozen=True)
class Where:
    """The addresses of a topic's servers, as the file will say them: ${NAME} is filled in from the environment.

    Attributes:
        brokers: host:port,…; None for the running embedded stack's.
        registry: the URL of a schema registry; None for the stack's, if brokers is None too.
        options: what Kafka's client is told besides, such as security.protocol.
    """

    brokers: str | None = None
    registry: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def of_topic(topic: str, where: Where) -> str:
    """Look at a topic's newest records, and give the text of a file for it.

    Raises:
        UsageError: there is no such topic, or it holds no record.
        PipelineFileError: an option of Kafka's client is unknown, or has a variable that is not set.
        SetupError: no brokers are given, and no stack is running.
        SourceUnreachable, SourceRefused: the brokers do not answer, or deny access.
    """
    from lakeingest.ingest import endpoints
    from lakeingest.kafka import sample as newest
    from lakeingest.operations.init import sample

    config = _checked_config(topic, where)
    servers = endpoints.addresses(config)[0]
    names = _names(config, servers)
    if topic not in names:
        close = get_close_matches(topic, names, n=1)
        some = f"did you mean {close[0]}?" if close else f"there are {', '.join(names[:10]) or 'none'}"
        raise UsageError(f"topic {topic!r} does not exist on {servers}", cure=f"{some}; name a topic that is there")
    records = newest.newest(config.source, servers, RECORDS)
    if not records:
        raise UsageError(
            f"topic {topic!r} holds no record, so that nothing can be told of it",
            cure="let some records come, and try again; or write a file to fill in: `lakeingest init`",
        )
    keys, values, headers = zip(*records, strict=True)
    # Asked of registries alone that somebody has named: brokers of one's own have their own.
    asks = where.brokers is None or where.registry is not None
    inferred = sample.inferred(values, keys, _registered(config) if asks else lambda id: None, headers)
    return text(topic, inferred, where)


def topics(timeout_s: float = 30.0) -> list[str]:
    """The topics of the running embedded stack but for internal ones; none where no stack is running."""
    from lakeingest.ingest import endpoints

    try:
        config = _checked_config("any", Where())
        return _names(config, endpoints.addresses(config)[0], timeout_s)
    except (SetupError, SourceError):
        return []


def _checked_config(topic: str, where: Where) -> PipelineConfig:
    """The configuration of one topic, checked as in a file."""
    from lakeingest.config import file
    from lakeingest.local import running

    if where.brokers is None and running() is None:
        raise SetupError(
            "no brokers are named, and no embedded stack is running",
            cure="name them with --brokers HOST:PORT, or start the stack with `lakeingest stack up`",
        )
    return file.from_mapping(
        {
            "name": "sample",
            "source": {"topics": [topic], "bootstrap_servers": where.brokers, "options": {**where.options}},
            "registry": {"url": where.registry, "wait": "5 seconds"},
            "decode": {"value": {"format": "bytes"}},
            "table": {"path": "/sample"},
        },
        os.environ,
    )


def _names(config: PipelineConfig, servers: str, timeout_s: float = 30.0) -> list[str]:
    from lakeingest.kafka.broker import Broker

    return [name for name in Broker(config.source, servers, timeout_s=timeout_s).names() if not name.startswith("__")]


def _registered(config: PipelineConfig) -> Callable[[SchemaId], str | None]:
    """Asks the registry for the type of a schema; answers None once it has failed."""
    from lakeingest.ingest import endpoints

    registry = endpoints.registry(config)
    failed = False

    def ask(id: SchemaId) -> str | None:
        nonlocal failed
        try:
            schema = None if failed else registry.writer(id)
        except SourceError:
            failed, schema = True, None
        return schema.type if schema else None

    return ask


def text(topic: str, sample: Sampled, where: Where) -> str:
    """The text of the file: one that `lakeingest check` finds good. Where the partition would not do, it has none."""
    partitions: tuple[tuple[str, ...], ...] = (
        *([tuple(_by_field(sample))] if sample.time_field else []),
        ("  - {by: time, every: day}",),
        (),
    )
    for partition in partitions:
        yaml = "\n".join(_lines(topic, sample, partition, where)) + "\n"
        with suppress(PipelineFileError):
            _check(yaml)
            return yaml
    # It says what is wrong, which is a fault of ours.
    _check(yaml)
    return yaml


def _check(yaml: str) -> None:
    from lakeingest.config import file, yaml_text

    file.from_mapping(yaml_text.parse(yaml).data, os.environ)


def _lines(topic: str, sample: Sampled, partition: tuple[str, ...], where: Where) -> Iterator[str]:
    name = re.sub(r"^[^A-Za-z0-9]+", "", topic)[:200] or "pipeline"
    yield from starter.HEAD.splitlines()
    yield from _comment_lines(
        "", f"Made from a sample: the newest {number_of(sample.records, 'record')} of topic {topic}. {_LOOK}"
    )
    yield f"name: {_scalar(name)}"
    yield from _source(topic, where)
    yield from _decode(sample)
    if where.registry is not None:
        yield "registry:"
        yield f"  url: {json.dumps(where.registry)}"
    if sample.columns_ddl:
        yield "schema:"
        yield from _comment_lines(
            "  ", "No column is NOT NULL: that a field is in each record of a sample does not mean it always is."
        )
        yield from _why(sample, "schema.columns")
        yield from _block("  columns", sample.columns_ddl)
    yield "partition:" if partition else "partition: []"
    yield from partition or ()
    yield "table:"
    if where.brokers is not None:
        yield "  # Write where the table is to lie: nobody has said so."
    yield f"  path: {json.dumps(f's3a://lake/{name}')}"


def _source(topic: str, where: Where) -> Iterator[str]:
    yield "source:"
    yield f"  topics: [{_scalar(topic)}]"
    if where.brokers is None:
        yield "  # Without bootstrap_servers: those of the running embedded stack."
    else:
        yield f"  bootstrap_servers: {json.dumps(where.brokers)}"
    if where.options:
        yield "  options:"
        yield from (f"    {_scalar(name)}: {json.dumps(value)}" for name, value in where.options.items())


def _decode(sample: Sampled) -> Iterator[str]:
    yield "decode:"
    yield from _why(sample, "decode.value")
    quotes = ", numbers_in_quotes: true" if sample.numbers_in_quotes else ""
    yield f"  value: {{format: {sample.value_format}{quotes}}}"
    yield from _why(sample, "decode.key")
    if sample.key_columns_ddl:
        yield "  key:"
        yield "    format: json"
        yield from ["    numbers_in_quotes: true"] if sample.key_numbers_in_quotes else []
        yield from _block("    columns", sample.key_columns_ddl)
    else:
        yield f"  key: {{format: {sample.key_format}}}"


def _by_field(sample: Sampled) -> Iterator[str]:
    yield from _why(sample, "partition")
    yield f"  - {{by: time, field: {_scalar(sample.time_field or '')}, every: {sample.every}}}"


def _block(option: str, ddl_text: str) -> Iterator[str]:
    """Columns, one a line, as a block in which no character means anything to YAML."""
    from lakeingest.operations.init.fields import lines

    indent = " " * (len(option) - len(option.lstrip()) + 2)
    yield f"{option}: >-"
    yield from (f"{indent}{line}" for line in lines(ddl_text))


def _why(sample: Sampled, option: str) -> Iterator[str]:
    sentences = sample.reasons.get(option, ())
    for sentence in sentences[:_MOST_TOLD]:
        yield from _comment_lines("  ", f"{sentence}.")
    if len(sentences) > _MOST_TOLD:
        yield f"  # … and {len(sentences) - _MOST_TOLD:,} more of that kind."


def _comment_lines(indent: str, sentence: str) -> Iterator[str]:
    for line in textwrap.wrap(sentence, _WIDTH - len(indent), break_on_hyphens=False):
        yield f"{indent}# {line}"


def _scalar(value: str) -> str:
    """A text as YAML has it."""
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return value if plain else json.dumps(value)
