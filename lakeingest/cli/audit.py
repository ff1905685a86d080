"""The command that proves conservation, or says what is missing or double."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeingest.cli import each_topic
from lakeingest.cli.arguments import File, Format
from lakeingest.cli.output import Output, drops
from lakeingest.errors import NotConserved, number_of

if TYPE_CHECKING:
    from lakeingest.operations.audit import Report
    from lakeingest.pipeline import Pipeline


def audit(file: File, output: Format = "text") -> None:
    """Prove that every consumed record is in the table, in quarantine, or a declared drop, exactly once.

    Ends with exit code 1 if anything is missing or double, and names the coordinates.

    Example:

        lakeingest audit pipelines/flights.yaml --output json
    """
    out = Output.of(output)

    def show(_: Pipeline, report: Report) -> dict[str, Any]:
        _show(out, report)
        return report.to_json()

    each_topic.ask(
        file, out, "counting records in both tables …", lambda pipeline: pipeline.audit(), show=show, check=check
    )


def _show(out: Output, report: Report) -> None:
    balance = f"{report.table:,} in the table + {report.quarantine:,} in quarantine + {report.dropped:,} dropped"
    out.line(
        f"{report.pipeline}: {number_of(report.consumed, 'record')} consumed in {number_of(report.commits, 'commit')}"
    )
    out.line(f"  {balance}; {report.missing:,} missing, {report.duplicated:,} duplicated")
    if report.backfills:
        out.line(f"  {report.backfilled:,} of them by backfills, in {number_of(report.backfills, 'commit')} more")
    if report.left_out:
        out.line(f"  dropped: {drops(report.dropped, report.left_out)}")
    for place in report.named.get("lost", []):
        out.line(f"  lost with consent, because Kafka had deleted them unread: {place}")
    if report.gaps:
        out.line(f"  {number_of(report.gaps, 'offset')} without a record (compaction, transaction markers)")
    if report.unproved:
        out.line(
            f"  {number_of(report.unproved, 'offset')}, in neither table, cannot be proved: quarantine's log "
            "was cleaned up"
        )
    if report.earlier and report.adopted:
        out.line(
            f"  {number_of(report.earlier, 'row')} from before, not proved: the table was adopted, by "
            f"{report.adopted['how']} (it was looked at in version {report.adopted['version']}, and had "
            f"{number_of(report.adopted['rows'], 'row')})"
        )
    elif report.earlier:
        out.line(f"  {number_of(report.earlier, 'row')}, older than the log's receipts, cannot be proved any more")
    if report.conserved:
        out.line("  conserved: every record is there, exactly once")
    for name, batch in report.others.items():
        out.line(f"  pipeline {name!r} has written records of these topics to the table too, up to its batch {batch}")


def check(report: Report) -> None:
    """Say what is wrong with a pipeline's tables.

    Raises:
        NotConserved: something is.
    """
    if report.others and not report.commits:
        names = ", ".join(map(repr, report.others))
        raise NotConserved(
            f"{report.pipeline} has committed nothing to the table, and pipeline {names} has, from the same topics",
            cure=f"if {names} was this pipeline's name before, write it as renamed_from beneath name in the file; else "
            "give this one a table of its own",
        )
    if report.earlier and not report.commits:
        raise NotConserved(
            f"{report.pipeline}: the table's log has no receipt left, so that nothing is proved of its rows",
            cure="let the pipeline run: what it commits from now on is proved; and let the log be kept for longer: "
            "ALTER TABLE … SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 365 days')",
        )
    if not report.conserved:
        wrong = [*report.breaks, *(f"{kind}: {place}" for kind, places in report.named.items() for place in places)]
        names = ", ".join(map(repr, report.others))
        whose = f"; pipeline {names} has written to the table too" if names else ""
        wrong += report.deleted
        back = (
            "if the DELETE was a mistake, RESTORE that table to the version before it and run again: the run reads "
            "again what the RESTORE takes back, while Kafka has it; "
        )
        raise NotConserved(
            f"{report.pipeline}: {report.missing} missing, {report.duplicated} duplicated, "
            f"{report.unexpected} unexpected{whose}" + "".join(f"\n  {line}" for line in wrong),
            cure=(back if report.deleted else "")
            + "if a run or a backfill is under way or was killed, let it finish (`lakeingest run FILE "
            "--until-caught-up`, `lakeingest backfill FILE`) and audit again; else somebody changed the tables: see "
            "their history",
        )
