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


def ask(path: Path, out: Output, doing: str, question: Callable[[Pipeline, Callable[[str], None]], Showable]) -> None:
    """Ask, and show each answer. For programs it is one document, of several pipelines a list of them.

    Args:
        doing: what a terminal shows meanwhile.
        question: it is also given what shows each step.

    Raises:
        LakeingestError: of a file of one pipeline, why there is no answer, or its failure.
        Exit: of several, something is wrong with one at least; stderr says what.
    """
    from lakeingest.config import file as pipeline_file

    _ask([pipeline_file.read_any(path, os.environ)], out, doing, question)


def ask_all(
    paths: Sequence[Path],
    out: Output,
    doing: str,
    question: Callable[[Pipeline, Callable[[str], None]], Showable],
    *,
    allow_code: bool,
) -> None:
    """Ask the pipelines of files, and of folders of them; see `ask`."""
    from lakeingest.config import file as pipeline_file

    alone = len(paths) == 1 and not paths[0].is_dir()
    read = [pipeline_file.read_any(paths[0], os.environ)] if alone else pipeline_file.read_all(paths, os.environ)
    _ask(read, out, doing, question, allow_code=allow_code, alone=alone)


def _ask(
    files: Sequence[PipelineConfig | PerTopic],
    out: Output,
    doing: str,
    question: Callable[[Pipeline, Callable[[str], None]], Showable],
    *,
    allow_code: bool = False,
    alone: bool = True,
) -> None:
    """
    Args:
        alone: whether it is asked of one file.
    """
    import lakeingest
    from lakeingest.config.per_topic import PerTopic

    def answer(config: PipelineConfig) -> Showable:
        pipeline = lakeingest.Pipeline(config, allow_code=allow_code)
        with out.progress(doing) as say:
            return question(pipeline, say)

    if alone and not isinstance(files[0], PerTopic):
        out.show(answer(files[0]))
        return
    documents, codes = [], set()
    for config in configs(files):
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
        patterns = ", ".join(repr(file.pattern.pattern) for file in files if isinstance(file, PerTopic))
        out.line(f"no topic matches {patterns}")
    out.result({"pipelines": documents})
    if codes:
        raise typer.Exit(worst(codes))
