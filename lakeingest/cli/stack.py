"""`lakeingest stack`: the embedded Kafka, S3 server and schema registry."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lakeingest.cli.output import Output
from lakeingest.errors import SetupError
from lakeingest.local.addresses import Addresses, running

app = typer.Typer(
    name="stack",
    help="The embedded Kafka, S3 server and schema registry, on 127.0.0.1 only, without Docker.",
    no_args_is_help=True,
)

Format = Annotated[str, typer.Option("--output", help="text or json.")]
State = Annotated[
    Path | None,
    typer.Option("--state", help="Folder of its data, instead of $LAKEINGEST_STATE or ~/.local/state/lakeingest."),
]


@app.command()
def up(output: Format = "text", state: State = None) -> None:
    """Start the stack, and return when all of it serves. Harmless when it runs already.

    The first time, its files are downloaded (about 170 MB). Data survives `down` and the next `up`.

    Example: lakeingest stack up && eval "$(lakeingest stack env)"
    """
    from lakeingest.local import stack

    out = Output.of(output)
    with out.progress("starting the embedded stack …") as say:
        addresses = stack.up(state, say=say)
    _show(out, addresses, stack.status(state))


@app.command()
def status(output: Format = "text", state: State = None) -> None:
    """Say what runs, and where.

    Example: lakeingest stack status --output json
    """
    from lakeingest.local import stack

    _show(Output.of(output), running(state), stack.status(state))


@app.command()
def down(
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Delete its topics, buckets, schemas, logs and keys too.")
    ] = False,
    state: State = None,
) -> None:
    """End the stack's processes; its data stays, unless --wipe is given.

    Example: lakeingest stack down --wipe
    """
    from lakeingest.local import stack

    ran = stack.down(state, wipe=wipe)
    sentence = "the embedded stack is down" if ran else "the embedded stack was not running"
    Output.of("text").line(sentence + (", and its data is deleted" if wipe else ""))


@app.command()
def env(state: State = None) -> None:
    """Print the addresses and keys as shell commands, for other tools (aws, kcat, a notebook).

    Example: eval "$(lakeingest stack env)"
    """
    addresses = running(state)
    if addresses is None:
        raise SetupError("the embedded stack does not run", cure="run `lakeingest stack up` first")
    out = Output.of("text")
    for name, value in addresses.env().items():
        out.line(f"export {name}={_quoted(value)}")


def _quoted(value: str) -> str:
    quoted = shlex.quote(value)
    return quoted if quoted.startswith("'") else f"'{quoted}'"


def _show(out: Output, addresses: Addresses | None, servers: Sequence[Any]) -> None:
    places = {"kafka": addresses.kafka, "s3": addresses.s3, "registry": addresses.registry} if addresses else {}
    rows = [(s.name, s.state, places.get(s.name, s.port or ""), s.pid or "", s.version, s.log) for s in servers]
    out.table("Embedded stack", ("server", "state", "address", "pid", "version", "log"), rows, spare=("version", "pid"))
    if addresses is not None:
        out.line('For other tools: eval "$(lakeingest stack env)"')
    out.result({"running": addresses is not None, "addresses": places, "servers": [asdict(s) for s in servers]})
