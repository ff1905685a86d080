"""Quality gates: a Great Expectations suite decides which records reach the table.

`suite` reads and checks a suite (`arguments`: what may stand in it, `query`: what its SQL may ask). `predicates` turns
its expectations into Columns. `evaluate` says what they found in a batch, with Great Expectations itself where there is
no Column. `results` is the table that keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeingest.gate import suite

if TYPE_CHECKING:
    from lakeingest.config import PipelineConfig
    from lakeingest.gate.suite import Suite


def load(config: PipelineConfig) -> Suite | None:
    """The suite of a pipeline, checked against the columns of its value; None without a gate.

    Raises:
        PipelineFileError: the suite cannot be read, or is wrong; `problems` holds every mistake.
    """
    return suite.load(config.gate, config.columns) if config.gate else None
