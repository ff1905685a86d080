"""Arguments and options that several commands have."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from lakeingest.cli import complete
from lakeingest.errors import UsageError

File = Annotated[
    Path,
    typer.Argument(
        help="The pipeline file (YAML); FILE:TOPIC where it is for many topics.",
        show_default=False,
        autocompletion=complete.files,
    ),
]
FilesOrFolders = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…",
        help="Pipeline files (YAML), or folders of them.",
        show_default=False,
        autocompletion=complete.files,
    ),
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code", help="Let the classes of your own run that the file names. Trust both first.")
]
AcceptHeld = Annotated[
    str | None,
    typer.Option(
        "--accept-held", metavar="REASON", help="Let the first batch through that the gate would hold, and say why."
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        help="Log to stderr, an event a line: text, json, or none. Default: text where stderr is no terminal.",
        show_default=False,
        autocompletion=complete.log_formats,
    ),
]
Format = Annotated[str, typer.Option("--output", help="text, or json for programs.", autocompletion=complete.formats)]


def waiting_time(option: str, text: str) -> timedelta:
    """A duration that may be nothing.

    Raises:
        UsageError: it is no duration.
    """
    from lakeingest.config.durations import wait

    try:
        value: timedelta = wait(text)
    except ValueError as wrong:
        raise UsageError(f'{option} "{text}": {wrong}', cure="write it as in 2h or 90s") from None
    return value
