"""The command that hands new rows on as files of other formats."""

from __future__ import annotations

from typing import Annotated

import typer

from lakeingest.cli.arguments import AllowCode, File, Format
from lakeingest.cli.output import Output


def export(
    file: File,
    *,
    to: Annotated[
        str, typer.Option(metavar="PATH", help="A folder of its own: s3a://bucket/folder, or a local path from /.")
    ],
    format_: Annotated[str, typer.Option("--format", help="jsonl, csv, avro or parquet.")] = "jsonl",
    partition_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns that become folders, with commas; none where it is empty. "
            "The table's own partition columns by default.",
            show_default=False,
        ),
    ] = None,
    compression: Annotated[str, typer.Option(help="Of jsonl and csv: none or gzip.")] = "none",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many rows are new.")] = False,
    allow_code: AllowCode = False,
    output: Format = "text",
) -> None:
    """Write the rows that came since the last export into that place, each once, as files of another format.

    May be called while the pipeline runs, and again at any time. The place itself keeps how far it has come, in a Delta
    table _lakeingest_export, which names the files. Refused records are not exported.

    Examples:

        lakeingest export pipelines/flights.yaml --format csv --to s3a://lake/handed-on/flights --dry-run

        lakeingest export pipelines/flights.yaml --to s3a://lake/handed-on/flights --compression gzip

        lakeingest export pipelines/flights.yaml --format parquet --to /data/flights --partition-by origin,carrier
    """
    import lakeingest

    out = Output.of(output)
    pipeline = lakeingest.load(file, allow_code=allow_code)
    by = None if partition_by is None else [name.strip() for name in partition_by.split(",") if name.strip()]
    with out.progress("exporting …") as say:
        result = pipeline.export(
            to,
            format=format_,  # type: ignore[arg-type]  # It says itself which there are.
            partition_by=by,
            compression=compression,
            dry_run=dry_run,
            on_step=say,
        )
    out.show(result)
