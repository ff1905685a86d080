"""The notebooks run from the first cell to the last, and what they show is true.

Here one kernel runs all of them, one after the other: a kernel of its own costs each the start of Spark.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

pytestmark = [pytest.mark.classic, pytest.mark.pinned, pytest.mark.slow]

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(file.stem for file in FOLDER.glob("*.ipynb"))
SAYS: dict[str, tuple[str, ...]] = {
    "01_first_pipeline": (
        "Counts(consumed=3000, accepted=2997, refused=3, dropped=0)",
        "Counts(consumed=1, accepted=1, refused=0, dropped=0)",
        "first_pipeline: conserved, 3,001 consumed = 2,998 in the table + 3 in quarantine + 0 dropped",
    ),
    "02_explore_a_table": (),
    "03_quarantine_and_repair": (),
    "04_schema_evolution": (),
    "05_quality_gates": (),
    "06_tuning": (),
}
"""Name → what is said somewhere in it."""


def execute(names: Sequence[str], texts: dict[str, str]) -> None:
    """Run notebooks in one kernel, which finds the run's own stack in the environment; name → all that they say."""
    parts = {name: nbformat.read(FOLDER / f"{name}.ipynb", as_version=4) for name in names}
    whole = nbformat.v4.new_notebook(metadata=parts[names[0]].metadata)
    # Each begins with empty hands, as in a kernel of its own; the Spark session stays.
    for part in parts.values():
        whole.cells += [*part.cells, nbformat.v4.new_code_cell("%reset -f")]
    client = NotebookClient(whole, timeout=300, kernel_name="python3", resources={"metadata": {"path": FOLDER}})
    # A driver that lives for seconds spends them on its compiler.
    spark = {"LAKEINGEST_DRIVER_MEMORY": "1g", "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
    client.execute(env={**os.environ, **spark})
    for name, part in parts.items():
        check(name, part)


def check(name: str, notebook: NotebookNode) -> None:
    """What the notebook shows is true, is shown without a warning, and ends with a picture."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    texts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs]
    said = "\n".join(texts)
    assert [text for text in SAYS[name] if text not in said] == [], said
    assert "Warning" not in said
    assert "image/png" in outputs[-1]["data"]
