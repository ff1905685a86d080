"""The command that shows where a pipeline stands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakeingest.cli import each_topic
from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output
from lakeingest.errors import number_of

if TYPE_CHECKING:
    from lakeingest.operations.status import Status
    from lakeingest.pipeline import Pipeline

_COMMITS = ("sequence", "version", "time", "rows", "offsets", "refused", "dropped", "writer")


def status(file: File, output: Format = "text") -> None:
    """Show where a pipeline stands: frontier and lag per partition, last commits, rows, files and their average size,
    and whether its contract is kept.

    Example:

        lakeingest status pipelines/flights.yaml --output json
    """
    out = Output.of(output)

    def show(_: Pipeline, found: Status) -> dict[str, Any]:
        _show(out, found)
        return found.to_json()

    each_topic.ask(file, out, "reading the tables, and asking Kafka …", lambda pipeline: pipeline.status(), show=show)


def _show(out: Output, found: Status) -> None:
    if held := found.held:
        why = f"by {', '.join(held['broken'])}; waiting: {number_of(held['waiting'], 'offset')}"
        out.line(f"{found.pipeline}: batch {held['sequence']} is held since {held['since']}, {why}")
        out.line(f"  cure: {held['cure']}")
    out.table(
        f"{found.pipeline}: lag {found.lag:,}",
        ("topic", "partition", "frontier", "end", "lag"),
        [[p["topic"], p["partition"], _or_dash(p["frontier"]), p["end"], p["lag"]] for p in found.partitions],
    )
    out.table(
        "last commits",
        _COMMITS,
        [[commit[name] for name in _COMMITS] for commit in found.commits],
        spare=("writer", "version", "dropped", "offsets"),
    )
    for backfill in found.backfill:
        left = f"{number_of(backfill['remaining'], 'offset')} left then" if backfill["remaining"] else "all was taken"
        out.line(f"newest commit of a backfill: {backfill['sequence']} at {backfill['time']}, {left}")
    out.table(
        "tables",
        ("", "path", "rows", "files", "MB", "average MB"),
        [
            [name, t["path"], f"{t['rows']:,}", t["files"], _mb(t["bytes"]), _mb(t["average_file_bytes"])]
            for name, t in found.tables.items()
        ],
    )
    if found.contract:
        out.table(
            "contract",
            ("promise", "promised", "kept", "found"),
            [[c["promise"], c["promised"], _kept(c), c["found"]] for c in found.contract],
        )


def _kept(promise: Mapping[str, Any]) -> str:
    if promise["kept"] is None:
        return "—"
    if promise["kept"]:
        return "yes"
    from lakeingest.config.values import duration_text

    by = timedelta(seconds=round(promise["by_s"]))
    return f"no, by {duration_text(by)}" if by else "no"


def _or_dash(value: object) -> object:
    return "—" if value is None else value


def _mb(size: int) -> str:
    return f"{size / 1e6:.2f}"
