"""Commands about pipeline files, all of them offline: check, describe, init, and the JSON schema for editors."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeingest.cli import complete
from lakeingest.cli.arguments import Format
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError

SCHEMA = Path(__file__).parent.parent / "config" / "pipeline.schema.json"
"""The JSON schema of a pipeline file, as it is shipped."""


def check(
    files: Annotated[
        list[Path],
        typer.Argument(help="Pipeline files (YAML).", show_default=False, autocompletion=complete.files),
    ],
    *,
    online: Annotated[
        bool, typer.Option("--online", help="Ask Kafka for the topics, and the registry for its levels, too.")
    ] = False,
    output: Format = "text",
) -> None:
    """Check pipeline files, offline: every mistake, with its line and its cure.

    Examples:

        lakeingest check pipelines/flights.yaml

        lakeingest check pipelines/*.yaml --online

    \f
    Raises:
        PipelineFileError: at least one file is wrong; `problems` holds the mistakes of all of them.
        RegistryUnreachable, RegistryRefused: with --online, the registry cannot be asked.
    """
    from lakeingest.operations import file_check

    out = Output.of(output)
    out.show(file_check.check(files, online=online))


def describe(
    part: Annotated[
        str,
        typer.Argument(help="A part, such as source or partition.time. Default: all.", autocompletion=complete.parts),
    ] = "",
    output: Format = "text",
    json_schema: Annotated[bool, typer.Option("--json-schema", help="Print the JSON schema for editors.")] = False,
) -> None:
    """Explain the options of a pipeline file: type, default and meaning, the required ones first.

    \f
    Raises:
        UsageError: there is no such part.
    """
    from lakeingest.config import options
    from lakeingest.config.mistakes import did_you_mean
    from lakeingest.operations.results.pipeline_file import OptionHelp

    out = Output.of(output)
    if json_schema:
        # The schema is JSON, whichever output is asked for.
        Output(is_json=True).result(schema())
        return
    option = options.find(part)
    if option is None:
        names = options.parts()
        cure = f"{did_you_mean(part, names)}write one of {', '.join(names)}"
        raise UsageError(f'"{part}" is no part of a pipeline file', cure=cure)
    out.show(OptionHelp(option))


def init(
    file: Annotated[
        Path | None,
        typer.Argument(help="The file to write; - prints it. [default: pipeline.yaml]", show_default=False),
    ] = None,
    *,
    from_topic: Annotated[
        str | None,
        typer.Option(
            "--from-topic",
            metavar="TOPIC",
            help="Write it from a sample of this topic.",
            show_default=False,
            autocompletion=complete.topics,
        ),
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option(
            "--brokers",
            metavar="HOST:PORT",
            help="Where the topic is. Default: the embedded stack.",
            show_default=False,
        ),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            metavar="URL",
            help="The schema registry of the topic. Default: the embedded stack's, for its own topics.",
            show_default=False,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="What Kafka's client is told besides (source.options), once each. Secrets as '${NAME}'.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Write a commented pipeline file to start from: to be filled in, or from a sample of a topic's records.

    From a sample come the formats of key and value, JSON's columns and the partition, each with its reason. No offset
    is committed to Kafka.

    Examples:

        lakeingest init pipelines/orders.yaml

        lakeingest init pipelines/orders.yaml --from-topic orders

        lakeingest init orders.yaml --from-topic orders --brokers broker.example:9092

        lakeingest init orders.yaml --from-topic orders --brokers broker.example:9092
        --option security.protocol=SASL_SSL --option sasl.mechanism=PLAIN
        --option sasl.username=me --option 'sasl.password=${KAFKA_PASSWORD}'

    \f
    Raises:
        UsageError: the file exists, or cannot be written; or there is no such topic, or no record in it.
        SetupError: no brokers are named, and no embedded stack is running.
    """
    from lakeingest.cli import from_topic as sampled
    from lakeingest.cli import starter

    out = Output()
    options = {"--brokers": brokers, "--registry": registry, "--option": option}
    if from_topic is None and any(options.values()):
        name = next(name for name, value in options.items() if value)
        raise UsageError(f"{name} is for --from-topic", cure="name a topic: --from-topic TOPIC")
    if from_topic is None and file is None and sys.stdin.isatty() and sys.stdout.isatty():
        from_topic = _ask(sampled.topics())
    file = file or Path("pipeline.yaml")
    if file.exists() and not force and str(file) != "-":
        raise UsageError(f"{file} exists", cure="name another file, or overwrite it with --force")
    if from_topic is None:
        text = starter.text()
    else:
        with out.progress(f"looking at the newest records of {from_topic} …"):
            text = sampled.of_topic(from_topic, sampled.Where(brokers, registry, _options(option or [])))
    if str(file) == "-":
        out.lines(text.rstrip("\n"))
        return
    try:
        with file.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror})", cure="check the path") from None
    name = shlex.quote(str(file))
    if from_topic is None:
        out.line(f"{file} is written; fill it in, then: lakeingest check {name}")
    else:
        out.line(f"{file} is written from a sample of {from_topic}; look at it, then: lakeingest plan {name}")


def _options(texts: Sequence[str]) -> dict[str, str]:
    from lakeingest.operations.connect import translation

    options = {}
    for each in texts:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise UsageError(f"--option {name!r} is not NAME=VALUE", cure="as in --option security.protocol=SASL_SSL")
        if translation.is_secret(name) and not value.startswith("${"):
            cure = f"put it into a variable, and write --option '{name}=${{KAFKA_SECRET}}'"
            raise UsageError(f"--option {name} is a secret, which would stand in the file", cure=cure)
        options[name] = value
    return options


def _ask(topics: list[str]) -> str | None:
    """The topic that whoever sits there wants a file for; None for a file to fill in."""
    if not topics:
        return None
    names = ", ".join(topics[:20]) + (f" and {len(topics) - 20:,} more" if len(topics) > 20 else "")
    Output().line(f"topics of the embedded stack: {names}")
    try:
        # typer's own prompt would end with 1 where somebody presses Ctrl-C.
        answer = input("Topic to write the file from (Enter: a file to fill in): ")
    except EOFError:
        answer = ""
    return answer.strip() or None


def schema() -> dict[str, Any]:
    """The JSON schema of a pipeline file, generated from the model."""
    from lakeingest.config import PipelineConfig

    generated = PipelineConfig.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_untitled(generated)}


def _untitled(node: Any) -> Any:
    """Without the titles that pydantic makes from names: an editor shows them above the meaning."""
    if isinstance(node, dict):
        return {k: _untitled(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}
    return [_untitled(item) for item in node] if isinstance(node, list) else node


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
