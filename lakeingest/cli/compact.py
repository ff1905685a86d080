"""The command that makes few large files of many small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeingest.cli.arguments import AllowCode, File, Format
from lakeingest.cli.output import Output

if TYPE_CHECKING:
    from lakeingest.ingest.events import Maintained


def compact(
    file: File,
    *,
    target_mib: Annotated[int, typer.Option(help="About how large the new files become, in MiB.", min=1)] = 128,
    where: Annotated[
        str | None, typer.Option(help="Which partitions of the main table, in Spark SQL; all of them by default.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many files there are.")] = False,
    allow_code: AllowCode = False,
    output: Format = "text",
) -> None:
    """Rewrite small files of the table, of the quarantine and of the gate's results as larger ones. Rows stay the same.

    May be called while the pipeline runs, and again at any time. The old files stay in the store for readers of older
    versions; Delta's VACUUM deletes them.

    Examples:

        lakeingest compact pipelines/flights.yaml --dry-run

        lakeingest compact pipelines/flights.yaml --where "day < '2026-11-01'" --target-mib 256
    """
    import lakeingest

    out = Output.of(output)
    pipeline = lakeingest.load(file, allow_code=allow_code)
    with out.progress("compacting …") as say:

        def heard(event: Maintained) -> None:
            from lakeingest.ingest.listeners.log import sentence

            say(sentence(event))

        result = pipeline.compact(target_mib * 2**20, where=where, dry_run=dry_run, on_event=heard)
    out.show(result)
