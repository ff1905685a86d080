"""The text of `lakeingest` alone: this folder's files, and the next command. Starts nothing, asks no distant server.

It looks at the files of the folder and of pipelines/ within it, at the embedded stack, and whether a table's log is
there, on this machine or in the stack's own store. Of a pipeline that reads from the stack it tells how much waits and
was refused. About other stores and brokers it claims nothing.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from lakeingest.cli.output import Output
from lakeingest.errors import LakeingestError, PipelineFileError, SetupError, number_of

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig
    from lakeingest.config.per_topic import PerTopic
    from lakeingest.local import Addresses
    from lakeingest.operations.results.status import Status

_MOST = 8
_PATIENCE_S = 5.0
_WIDTH = 36
"""Of a command, before what it is for."""

Step = tuple[str, str]
"""A command, and what it is for."""
_SAMPLE = ("lakeingest init --from-topic TOPIC", "write a pipeline file from a topic's records")
_INIT = ("lakeingest init", "write a commented pipeline file to fill in")
_UP = ("lakeingest stack up", "start Kafka, an S3 server and a schema registry here")


_WAITS = "good; it needs the embedded stack"


def tell(folder: Path, out: Output) -> None:
    """Say what is in the folder, and how to go on."""
    from lakeingest.config import folder as pipeline_files
    from lakeingest.local import running

    stack, broken = None, None
    try:
        stack = running()
    except SetupError as error:
        broken = error
    files = [*pipeline_files.files(folder), *pipeline_files.files(folder / "pipelines")]
    outcomes = [(file, *_of_file(file, stack)) for file in files[:_MOST]]
    out.line(f"embedded stack: {'running' if stack else 'not running'}")
    if broken:
        out.line(f"  {broken.what}")
        out.line(f"  cure: {broken.cure}")
    elif not stack and (not outcomes or any(says == _WAITS for _, says, _ in outcomes)):
        _show(out, [_UP])
    if not outcomes:
        out.line("pipeline files: none here, and none in pipelines/")
        _show(out, [_SAMPLE, _INIT])
    for file, says, steps in outcomes:
        out.line(f"{file}: {says}")
        _show(out, steps)
    if len(files) > _MOST:
        out.line(f"… and {number_of(len(files) - _MOST, 'pipeline file')} more")
    out.line()
    out.line("All commands: lakeingest --help")


def _show(out: Output, steps: list[Step]) -> None:
    for command, meaning in steps:
        # What is longer has its meaning on a line of its own.
        apart = len(command) > _WIDTH
        out.line(f"  {command}" if apart else f"  {command:<{_WIDTH}}  {meaning}")
        if apart:
            out.line(f"  {'':<{_WIDTH}}  {meaning}")


def _of_file(file: Path, stack: Addresses | None) -> tuple[str, list[Step]]:
    """The state of a file, and the commands to go on with."""
    from lakeingest import gate
    from lakeingest.config import PipelineConfig
    from lakeingest.config import file as pipeline_file
    from lakeingest.config.per_topic import PerTopic

    name = shlex.quote(str(file))
    try:
        config = pipeline_file.read_any(file, os.environ)
        gate.load(config.example if isinstance(config, PerTopic) else config)
    except PipelineFileError as error:
        return number_of(len(error.problems), "mistake"), [(f"lakeingest check {name}", "name each, with its cure")]
    plan = (f"lakeingest plan {name}", "see what a run would do; writes nothing")
    run = (f"lakeingest run {name}", "ingest, until Ctrl-C")
    status = (f"lakeingest status {name}", "frontier and lag, last commits, files")
    refused = (f"lakeingest quarantine list {name}", "what was refused, and why")
    source = (config.example if isinstance(config, PerTopic) else config).source
    if source.bootstrap_servers is None and source.table is None and not stack:
        return _WAITS, []
    match _ran(config, stack):
        case True:
            stands = _stands(config) if isinstance(config, PipelineConfig) else None
            if stands is None:
                return "good; its table is there", [status, refused, run]
            count = stands.tables["quarantine"]["rows"]
            says = f"good; {number_of(stands.lag, 'record')} wait, {number_of(count, 'record')} in quarantine"
            return says, [*([run] if stands.lag else []), *([refused] if count else []), status]
        case False:
            return "good; it has never run", [plan, run]
        case None:
            return "good", [plan, run, *([] if isinstance(config, PerTopic) else [status])]


def _stands(config: PipelineConfig) -> Status | None:
    """The state of a pipeline of the running stack; None if it cannot be told at once, and without Spark."""
    if config.source.bootstrap_servers is not None or config.source.table is not None:
        return None
    try:
        from lakeingest.delta.reader.log import Unreadable
        from lakeingest.ingest import endpoints
        from lakeingest.kafka.broker import Broker
        from lakeingest.operations.readers import FileTables
        from lakeingest.operations.status import status
    except ImportError:
        return None
    try:
        servers, storage = endpoints.addresses(config)
        topics = Broker(config.source, servers, timeout_s=_PATIENCE_S).topics()
        return status(FileTables(config, storage), topics)
    except (LakeingestError, Unreadable):
        return None


def _ran(config: PipelineConfig | PerTopic, stack: Addresses | None) -> bool | None:
    """Whether the table's log is there; None where only a catalog or a distant store could tell."""
    from lakeingest.config import PipelineConfig, location

    if not isinstance(config, PipelineConfig) or config.table.path is None:
        return None
    place = location.place(config.table.path)
    if not place.on_s3:
        return Path("/", *place.steps, "_delta_log").is_dir()
    if stack is None or config.source.bootstrap_servers is not None or config.storage.model_fields_set:
        return None
    from lakeingest.local import s3

    return s3.holds(stack, place.bucket, "/".join((*place.steps, "_delta_log", "")))
