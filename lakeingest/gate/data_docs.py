"""Great Expectations' own Data Docs of what a gate found: static pages, a run of theirs for each batch of ours."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from lakeingest.errors import UsageError
from lakeingest.gate.evaluate import great_expectations

_SITE = "lakeingest"


def build(found: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """Write the pages of some batches into a folder, in place of those that it holds; other files stay.

    Args:
        found: rows of `results`, those of a batch next to each other.

    Returns:
        The page to open first.

    Raises:
        SetupError: Great Expectations is not installed.
        UsageError: the folder cannot be written.
    """
    context = need().get_context(mode="ephemeral")
    for other in list(context.get_site_names()):
        context.delete_data_docs_site(other)
    context.add_data_docs_site(
        _SITE,
        {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder.absolute())},
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        },
    )
    for _, rows in groupby(found, key=itemgetter("time", "sequence")):
        _add(context, list(rows))
    try:
        context.build_data_docs()
    except OSError as error:
        raise UsageError(f"{folder} cannot be written ({error.strerror})", cure="name another folder") from error
    return folder / "index.html"


def need() -> Any:
    """Great Expectations.

    Raises:
        SetupError: it is not installed.
    """
    return great_expectations("Data Docs")


def _add(context: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put one batch among the results that the pages are made of."""
    from great_expectations.core import ExpectationSuiteValidationResult, RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    first = rows[0]
    run = RunIdentifier(run_name=f"batch {first['sequence']} {first['outcome']}", run_time=first["time"])
    met = sum(row["success"] for row in rows)
    result = ExpectationSuiteValidationResult(
        success=met == len(rows),
        results=[_result(row) for row in rows],
        suite_name=first["suite"],
        statistics={
            "evaluated_expectations": len(rows),
            "successful_expectations": met,
            "unsuccessful_expectations": len(rows) - met,
            "success_percent": 100 * met / len(rows),
        },
        meta={
            "run_id": run,
            "active_batch_definition": {"data_asset_name": first["pipeline"]},
            "batch_markers": {"offsets": first["offsets"], "outcome": first["outcome"]},
        },
    )
    key = ValidationResultIdentifier(ExpectationSuiteIdentifier(first["suite"]), run, first["pipeline"])
    context.validation_results_store.set(key, result)


def _result(row: Mapping[str, Any]) -> Any:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    asked, found = json.loads(row["asked"]), dict[str, Any]()
    if row["observed"] is not None:
        found["observed_value"] = _escaped(json.loads(row["observed"]))
    if row["unexpected"] is not None:
        found |= {
            "element_count": row["evaluated"],
            "unexpected_count": row["unexpected"],
            "unexpected_percent": 100 * row["unexpected"] / row["evaluated"] if row["evaluated"] else 0.0,
            "partial_unexpected_list": _escaped(row["sample"] or []),
        }
    return ExpectationValidationResult(
        success=row["success"],
        expectation_config=ExpectationConfiguration(asked["type"], _escaped(asked["kwargs"])),
        result=found,
        exception_info={"raised_exception": False, "exception_message": None, "exception_traceback": None},
    )


def _escaped(value: Any) -> Any:
    """Without tags: the pages show values as they are, and a record or a suite could hold a script."""
    if isinstance(value, str):
        return html.escape(value)
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    if isinstance(value, dict):
        return {html.escape(name): _escaped(each) for name, each in value.items()}
    return value
