"""What a command asks of a file's pipeline, or of that of each topic that a file's pattern matches now."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from lakeingest.cli.output import Output, as_data, message
from lakeingest.errors import LakeingestError, printable

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig
    from lakeingest.config.per_topic import PerTopic
    from lakeingest.pipeline import Pipeline

Answer = TypeVar("Answer")
WORST = (1, 3, 4, 2)
"""Exit codes, the worst first: a broken promise, a lost fence, what is outside, usage."""


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


def ask(
    path: Path,
    out: Output,
    doing: str,
    question: Callable[[Pipeline], Answer],
    *,
    show: Callable[[Pipeline, Answer], dict[str, Any]],
    check: Callable[[Answer], None] = lambda _: None,
) -> None:
    """Ask, and show each answer. For programs it is one document, of several pipelines a list of them.

    Args:
        doing: what a terminal shows meanwhile.
        show: shows an answer; gives it for programs.
        check: raises what is wrong, behind all that is shown.

    Raises:
        LakeingestError: of a file of one pipeline, why there is no answer, or what is wrong.
        Exit: of several, something is wrong with one at least; stderr says what.
    """
    import lakeingest
    from lakeingest.config import file as pipeline_file
    from lakeingest.config.per_topic import PerTopic

    def one(pipeline: Pipeline) -> tuple[dict[str, Any], Answer]:
        with out.progress(doing):
            answer = question(pipeline)
        return show(pipeline, answer), answer

    read = pipeline_file.read_any(path, os.environ)
    if not isinstance(read, PerTopic):
        data, answer = one(lakeingest.Pipeline(read))
        out.result(data)
        check(answer)
        return
    told, codes = [], set()
    for config in configs([read]):
        try:
            data, answer = one(lakeingest.Pipeline(config))
            told.append(data)
            check(answer)
        except LakeingestError as failed:
            sys.stderr.write(f"{printable(config.name)}: {message(failed)}")
            codes.add(failed.exit_code)
            # What was shown stands there already.
            if not (told and told[-1]["pipeline"] == config.name):
                told.append({"pipeline": config.name, "error": as_data(failed)})
    if not (told or out.is_json):
        out.line(f"no topic matches {read.pattern.pattern!r}")
    out.result({"pipelines": told})
    if codes:
        raise typer.Exit(next(code for code in WORST if code in codes))
