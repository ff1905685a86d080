"""What a command asks of a file's pipeline, or of that of each topic that a file's pattern matches now."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lakeingest.cli.output import Output, message
from lakeingest.errors import LakeingestError, printable
from lakeingest.operations.results.words import error_as_data, worst

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig
    from lakeingest.config.per_topic import PerTopic
    from lakeingest.operations.results.showable import Showable
    from lakeingest.pipeline import Pipeline


def configs(files: Sequence[PipelineConfig | PerTopic]) -> Iterator[PipelineConfig]:
    """A pipeline for each file, and for each topic that a file's pattern matches.

    Raises:
        SourceUnreachable: a file is for the topics of a pattern, and Kafka does not answer.
    """
    from lakeingest.config.per_topic import PerTopic
    from lakeingest.ingest import endpoints
    from lakeingest.kafka.broker import Broker

    for file in files:
        if not isinstance(file, PerTopic):
            yield file
            continue
        names = Broker(file.example.source, endpoints.addresses(file.example)[0]).names()
        yield from (file.of(name) for name in sorted(names) if file.pattern.fullmatch(name))


def ask(path: Path, out: Output, doing: str, question: Callable[[Pipeline], Showable]) -> None:
    """Ask, and show each answer. For programs it is one document, of several pipelines a list of them.

    Args:
        doing: what a terminal shows meanwhile.

    Raises:
        LakeingestError: of a file of one pipeline, why there is no answer, or its failure.
        Exit: of several, something is wrong with one at least; stderr says what.
    """
    import lakeingest
    from lakeingest.config import file as pipeline_file
    from lakeingest.config.per_topic import PerTopic

    def answer(config: PipelineConfig) -> Showable:
        pipeline = lakeingest.Pipeline(config)
        with out.progress(doing):
            return question(pipeline)

    read = pipeline_file.read_any(path, os.environ)
    if not isinstance(read, PerTopic):
        out.show(answer(read))
        return
    documents, codes = [], set()
    for config in configs([read]):
        document = None
        try:
            result = answer(config)
            out.text(result)
            document = result.to_json()
            result.check()
        except LakeingestError as failure:
            sys.stderr.write(f"{printable(config.name)}: {message(failure)}")
            codes.add(failure.exit_code)
            document = document or {"pipeline": config.name, "error": error_as_data(failure)}
        documents.append(document)
    if not (documents or out.is_json):
        out.line(f"no topic matches {read.pattern.pattern!r}")
    out.result({"pipelines": documents})
    if codes:
        raise typer.Exit(worst(codes))
