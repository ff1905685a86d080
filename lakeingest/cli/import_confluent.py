"""The command that makes pipeline files from the configuration of a Kafka Connect sink."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeingest.cli.arguments import Format
from lakeingest.cli.output import Output
from lakeingest.errors import UsageError

if TYPE_CHECKING:
    from lakeingest.config import Source
    from lakeingest.operations.connect import Imported


def import_confluent(
    config: Annotated[
        Path,
        typer.Argument(
            help="The connector's configuration: JSON or properties. With --compare, the pipeline file.",
            show_default=False,
        ),
    ],
    *,
    to: Annotated[Path, typer.Option("--to", help="The folder to write the pipeline files into.")] = Path(),
    worker: Annotated[
        Path | None,
        typer.Option("--worker", help="The Connect worker's properties, for the converters and brokers it sets."),
    ] = None,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Begin where the connector's consumer group stands in Kafka.")
    ] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="Fill in the columns of JSON from each topic's newest records.")
    ] = False,
    compare: Annotated[
        str | None,
        typer.Option("--compare", help="Hold the sink's objects below this prefix against the pipeline's tables."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; print the files.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    output: Format = "text",
) -> None:
    """Make pipeline files from an S3 sink's configuration, and tell what becomes of each option.

    Known are Confluent's S3 sink (self-managed and Confluent Cloud's), and the block-gzip sink before it. Secrets are
    never written: a variable of the environment takes their place.

    The exit code is 1 if an option is impossible or unknown here; the files are written all the same. With --compare it
    is 1 if the objects and the tables differ.

    Examples:

        lakeingest import-confluent connector.json

        lakeingest import-confluent connector.properties --worker worker.properties --to pipelines/

        lakeingest import-confluent connector.json --sample --offsets --dry-run

        lakeingest import-confluent --compare s3://lake/topics pipelines/orders.yaml

    \f
    Raises:
        UsageError: a configuration cannot be read, is no sink's that is known, or a file exists already.
        SourceUnreachable: Kafka cannot be asked for the offsets.
    """
    from lakeingest.operations import connect
    from lakeingest.operations.results.connector import ConnectorImport

    out = Output.of(output)
    if compare is not None:
        import lakeingest

        pipeline = lakeingest.load(config)
        with out.progress(f"counting the records at {compare} …"):
            comparison = pipeline.compare(compare)
        out.show(comparison)
        return
    options, of_worker = connect.read(config), connect.read(worker) if worker else {}
    connector = connect.translate(options, of_worker)
    start: dict[str, dict[int, int]] = {}
    columns: dict[str, str] = {}
    if offsets:
        with out.progress(f"asking Kafka where the group {connector.group} stands …"):
            start = _offsets(connector)
    if sample and "schema.columns" in connector.missing:
        with out.progress("looking at the newest records …"):
            columns = _columns(connector)
    if start or columns:
        connector = connect.translate(options, of_worker, start=start, columns=columns)
    paths = {to / name: text for name, text in connector.files.items()}
    if not dry_run:
        _write(paths, force=force)
    out.show(ConnectorImport(connector, paths, dry_run))


def _offsets(connector: Imported) -> dict[str, dict[int, int]]:
    """Offsets of the connector's consumer group: topic → partition → offset.

    Raises:
        PipelineFileError: a variable of the environment is not set that reaching Kafka takes.
        UsageError: the group has committed nothing in these topics.
        SourceUnreachable, SourceRefused: see `Broker`.
    """
    from lakeingest.kafka.broker import Broker

    source = _source(connector)
    assert source.bootstrap_servers is not None
    offsets: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in sorted(
        Broker(source, source.bootstrap_servers).committed(connector.group).items()
    ):
        if connector.reads(topic):
            offsets.setdefault(topic, {})[partition] = offset
    if not offsets:
        raise UsageError(
            f"the group {connector.group} has committed no offset in the connector's topics",
            cure="import without --offsets (source.start says where to begin), or correct consumer.override.group.id",
        )
    return offsets


def _columns(connector: Imported) -> dict[str, str]:
    """The columns of each topic's values, as DDL, that its newest records have; none for a topic without records.

    Raises:
        PipelineFileError, SourceUnreachable, SourceRefused: see `_offsets`.
        UsageError: a topic does not exist.
    """
    from lakeingest.cli.from_topic import RECORDS
    from lakeingest.kafka.sample import newest
    from lakeingest.operations.init.sample import inferred

    source, columns_by_topic = _source(connector), {}
    assert source.bootstrap_servers is not None
    for topic in connector.topics:
        if records := newest(source.model_copy(update={"topics": (topic,)}), source.bootstrap_servers, RECORDS):
            keys, values, _ = zip(*records, strict=True)
            columns_by_topic[topic] = inferred(values, keys).columns_ddl
    return {topic: columns for topic, columns in columns_by_topic.items() if columns}


def _source(connector: Imported) -> Source:
    """The source of the file, with the environment filled in."""
    from lakeingest.config import file

    decode, table = {"value": {"format": "bytes"}}, {"path": "/import"}
    values = {"name": "import", "table": table, "decode": decode, "source": connector.source}
    return file.from_mapping(values, os.environ).source


def _write(paths: dict[Path, str], *, force: bool) -> None:
    existing = [str(path) for path in paths if path.exists()]
    if existing and not force:
        raise UsageError(
            f"{', '.join(existing)} exists; nothing was written",
            cure="name another folder with --to, or overwrite with --force",
        )
    for path, text in paths.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path} cannot be written ({error.strerror})", cure="check the path") from None
