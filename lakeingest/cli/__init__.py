"""The command line. Commands speak to an `Output`, never print; errors become one message and an exit code.

Exit codes: 0 done, 1 a promise of the data is broken, 2 usage, 3 lost fence, 4 an outside service or this machine,
130 interrupted.
"""

from __future__ import annotations

import sys
from itertools import takewhile

import typer

from lakeingest.cli import (
    audit,
    compact,
    doctor,
    explain,
    gate,
    interrupt,
    pipeline_file,
    plan,
    quarantine,
    run,
    schema,
    sql,
    stack,
    status,
)
from lakeingest.cli.demo import demo
from lakeingest.cli.output import failed, message
from lakeingest.errors import LakeingestError
from lakeingest.spark import launch

app = typer.Typer(
    name="lakeingest",
    help="Kafka records into Delta Lake tables on S3, exactly once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for _command in (
    pipeline_file.init,
    pipeline_file.check,
    pipeline_file.describe,
    doctor.doctor,
    plan.plan,
    run.run,
    status.status,
    audit.audit,
    sql.sql,
    compact.compact,
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
