"""An audit with all that may be asked for beside the proof: others' deletes are declared, each key is compared, and a
verdict is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lakeingest.operations import audit
from lakeingest.operations.readers import Owner, answer
from lakeingest.operations.results.audit import Report
from lakeingest.operations.signing import SigningKey
from lakeingest.operations.verdicts import Verdicts

if TYPE_CHECKING:
    from lakeingest.ingest.context import RunContext


def run(
    owner: Owner,
    context: Callable[[], RunContext],
    against: str | None,
    accept_deletes: str | None,
    *,
    deep: bool = False,
    since: bool = False,
    sign: str | None = None,
) -> Report:
    """See `Pipeline.audit`. Files are asked rather than Spark, as the log may tell what Spark would read."""
    from lakeingest.operations import accepted_deletes, latest_comparison

    key = SigningKey(Path(sign)) if sign is not None else None
    accepted = {} if accept_deletes is None else accepted_deletes.accept(owner.tables, accept_deletes)
    verdicts = Verdicts(owner.config, owner.storage, key, check_all=deep) if since or key is not None else None
    proof = partial(audit.audit, deep=deep, proved=verdicts.proved if verdicts else ())
    report = replace(answer(owner, proof, files_first=not deep), accepted=accepted)
    report = latest_comparison.compare(report, context, against)
    return verdicts.go_on(report) if verdicts else report
