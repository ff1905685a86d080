"""The command line. Commands speak to an `Output`, never print; errors become one message and an exit code.

Exit codes: 0 done, 1 a promise of the data is broken, 2 usage, 3 lost fence, 4 an outside service or this machine,
130 interrupted.
"""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from lakeingest.cli import (
    adopt,
    audit,
    backfill,
    compare,
    contract,
    doctor,
    explain,
    export,
    forget,
    gate,
    iam,
    import_confluent,
    interrupt,
    maintain,
    next_step,
    pipeline_file,
    plan,
    quarantine,
    read,
    rebuild,
    report,
    run,
    schema,
    sql,
    stack,
    status,
    wait,
)
from lakeingest.cli.demo import demo
from lakeingest.cli.output import Output, failed, message
from lakeingest.errors import LakeingestError
from lakeingest.spark import launch


def _version(value: bool) -> None:
    if value:
        from lakeingest import __version__

        Output().line(f"lakeingest {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="lakeingest",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


@app.callback(invoke_without_command=True)
def lakeingest(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Kafka records into Delta Lake tables on S3, exactly once."""
    if context.invoked_subcommand is None:
        next_step.tell(Path(), Output())


for _command in (
    pipeline_file.init,
    pipeline_file.check,
    pipeline_file.describe,
    import_confluent.import_confluent,
    contract.contract,
    doctor.doctor,
    iam.iam,
    plan.plan,
    adopt.adopt,
    run.run,
    backfill.backfill,
    rebuild.rebuild,
    status.status,
    wait.wait,
    audit.audit,
    compare.compare,
    forget.forget,
    report.report,
    sql.sql,
    read.read,
    export.export,
    maintain.maintain,
):
    app.command()(_command)
app.add_typer(quarantine.app)
app.add_typer(gate.app)
app.add_typer(schema.app)
app.add_typer(stack.app)
app.command()(explain.explain)
app.command()(demo)


def main() -> None:
    """Run the command line; an error of lakeingest's own is told without a traceback."""
    interrupt.heed()
    launch.COMMAND.set("-".join(takewhile(str.isalpha, sys.argv[1:3])) or "help")
    try:
        app()
    except LakeingestError as error:
        failed(error)
        sys.stderr.write(message(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        # It came while the commands were put together.
        sys.exit(interrupt.CODE)
