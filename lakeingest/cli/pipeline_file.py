"""Commands about pipeline files, all of them offline: check, describe, init, and the JSON schema for editors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeingest.cli.output import Output
from lakeingest.errors import PipelineFileError, UsageError

if TYPE_CHECKING:
    from lakeingest.gate.suite import Suite

SCHEMA = Path(__file__).parent.parent / "config" / "pipeline.schema.json"
"""The JSON schema of a pipeline file, as it is shipped."""

_Format = Annotated[str, typer.Option("--output", help="text, or json for programs.")]


def check(
    files: Annotated[list[Path], typer.Argument(help="Pipeline files (YAML).", show_default=False)],
    *,
    online: Annotated[
        bool, typer.Option("--online", help="Hold schema.compatibility against the registry's levels too.")
    ] = False,
    output: _Format = "text",
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
    from lakeingest.config.file import failure

    out = Output.of(output)
    results = [_checked(file, online=online) for file in files]
    for result in results:
        if result["ok"]:
            out.line(f"{result['file']}: good")
        for notice in result["notices"]:
            out.line(f"  {notice}")
    problems = [problem for result in results for problem in result["problems"]]
    out.result({"ok": not problems, "files": results})
    if problems:
        wrong = [result["file"] for result in results if not result["ok"]]
        raise failure(wrong[0] if len(wrong) == 1 else f"{len(wrong)} of {len(files)} files", problems)


def _checked(file: Path, *, online: bool) -> dict[str, Any]:
    from lakeingest import gate
    from lakeingest.config import consistency
    from lakeingest.config import file as pipeline_file
    from lakeingest.config.per_topic import PerTopic

    result: dict[str, Any] = {"file": str(file), "ok": True, "problems": [], "notices": []}
    try:
        found = pipeline_file.read_any(file, os.environ)
        if isinstance(found, PerTopic):
            result["notices"].append(f"a pipeline for each topic that {found.pattern.pattern!r} matches")
        pipeline = found.example if isinstance(found, PerTopic) else found
        result["notices"] += consistency.notices(pipeline.columns, pipeline.partition)
        if (suite := gate.load(pipeline)) is not None:
            result["notices"].append(_gate(suite))
        if online:
            from lakeingest.operations import online as registry

            result["notices"] += registry.disagreements(pipeline)
    except PipelineFileError as error:
        return {**result, "ok": False, "problems": list(error.problems)}
    return result


def _gate(suite: Suite) -> str:
    return f"gate {suite.name}: {len(suite.refusing)} of {len(suite.rules)} expectations set single records aside"


def describe(
    part: Annotated[str, typer.Argument(help="A part, such as source or partition.time. Default: all.")] = "",
    output: _Format = "text",
    json_schema: Annotated[bool, typer.Option("--json-schema", help="Print the JSON schema for editors.")] = False,
) -> None:
    """Explain the options of a pipeline file: type, default and meaning, the required ones first.

    \f
    Raises:
        UsageError: there is no such part.
    """
    from lakeingest.config import options
    from lakeingest.config.mistakes import meant

    out = Output.of(output)
    if json_schema:
        # The schema is JSON, whichever output is asked for.
        Output(is_json=True).result(schema())
        return
    found = options.find(part)
    if found is None:
        known = options.parts()
        cure = f"{meant(part, known)}write one of {', '.join(known)}"
        raise UsageError(f'"{part}" is no part of a pipeline file', cure=cure)
    out.result(_plain(found))
    if not found.options:
        out.table(found.path, _HEADINGS, [_row(found)])
    for each in _parts(found):
        rows = sorted((_row(o) for o in each.options), key=lambda row: row[2] != "required")
        out.table(f"{each.path or 'pipeline file'}: {each.meaning}", _HEADINGS, rows)


def init(
    file: Annotated[Path, typer.Argument(help="The file to write; - prints it.")] = Path("pipeline.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Write a commented pipeline file to start from.

    \f
    Raises:
        UsageError: the file exists, or cannot be written.
    """
    from lakeingest.cli import starter

    out = Output()
    text = starter.text()
    if str(file) == "-":
        out.lines(text.rstrip("\n"))
        return
    try:
        with file.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"{file} exists", cure="name another file, or overwrite it with --force") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror})", cure="check the path") from None
    out.line(f"{file} is written; fill it in, then: lakeingest check {file}")


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


_HEADINGS = ("option", "type", "default", "meaning")


def _row(option: Any) -> tuple[str, str, str, str]:
    default = "required" if option.required else option.default or ""
    return option.name, option.type, default, option.meaning


def _parts(option: Any) -> Iterator[Any]:
    if option.options:
        yield option
    for child in option.options:
        yield from _parts(child)


def _plain(option: Any) -> dict[str, Any]:
    keys = ("path", "type", "required", "default", "example", "secret", "meaning")
    within = sorted(option.options, key=lambda o: not o.required)
    return {key: getattr(option, key) for key in keys} | {"options": [_plain(o) for o in within]}


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
