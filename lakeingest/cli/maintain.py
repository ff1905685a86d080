"""The command that keeps the tables of pipelines in shape."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakeingest.cli import each_topic
from lakeingest.cli.arguments import AllowCode, FilesOrFolders, Format
from lakeingest.cli.output import Output
from lakeingest.config import durations, sizes
from lakeingest.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeingest.ingest.events import Maintained
    from lakeingest.operations.results.maintenance import MaintenanceResult
    from lakeingest.pipeline import Pipeline

_TASKS = ("expire", "compact", "vacuum")


def maintain(
    files: FilesOrFolders,
    *,
    only: Annotated[
        str | None,
        typer.Option(metavar="TASK", help="One task: expire, compact, or vacuum. Default: all.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is due.")] = False,
    most_time: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Begin no partition later. Default: maintenance.most.time.", show_default=False
        ),
    ] = None,
    most_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Rewrite no more bytes. Default: maintenance.most.bytes.", show_default=False
        ),
    ] = None,
    i_know: Annotated[
        bool,
        typer.Option("--i-know", help="Let a VACUUM delete files younger than 7 days: nobody reads or writes them."),
    ] = False,
    allow_code: AllowCode = False,
    output: Format = "text",
) -> None:
    """Keep the tables of pipelines in shape: take out old rows, make larger files of small ones, delete unneeded ones.

    For each pipeline the table, the quarantine, and the tables of results, completeness, deleted keys, and of what was
    taken out. First, rows expire that are older than `retention` in the pipeline file says. Partitions that are
    finished are compacted, each in a commit of its own; then a VACUUM deletes the files that no version of the last 7
    days names, and that no export, replay or RESTORE needs. `maintenance` in the pipeline file says how.

    May be called while the pipeline runs, and again at any time: what one call leaves, the next one does.

    Examples:

        lakeingest maintain pipelines/flights.yaml --dry-run

        lakeingest maintain pipelines/ --most-time "20 minutes" --most-bytes "10 GiB"

        lakeingest maintain pipelines/flights.yaml --only expire --dry-run
    """
    out = Output.of(output)
    if only is not None and only not in _TASKS:
        raise UsageError(f'--only "{only}" is no task', cure=f"write one of {', '.join(_TASKS)}, or leave it out")
    options: dict[str, Any] = {
        "only": only,
        "dry_run": dry_run,
        "most_time": _option("--most-time", most_time, durations.duration),
        "most_bytes": _option("--most-bytes", most_bytes, sizes.size),
        "i_know": i_know,
    }

    def question(pipeline: Pipeline, say: Callable[[str], None]) -> MaintenanceResult:
        def heard(event: Maintained) -> None:
            from lakeingest.ingest.listeners.log import sentence

            say(sentence(event))

        return pipeline.maintain(**options, on_event=heard)

    each_topic.ask_all(files, out, "maintaining …", question, allow_code=allow_code)


def _option(name: str, text: str | None, parse: Callable[[str], Any]) -> timedelta | int | None:
    """The value of an option, in the words of the pipeline file."""
    if text is None:
        return None
    try:
        value: timedelta | int = parse(text)
    except ValueError as wrong:
        raise UsageError(f'{name} "{text}" is {wrong}', cure="write it as in the pipeline file") from None
    return value
