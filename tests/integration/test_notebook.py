"""The notebook for newcomers runs from its first cell to its last, and what it shows is true."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from lakeingest.local import Addresses

pytestmark = pytest.mark.classic

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

FIRST = NOTEBOOKS / "01_first_pipeline.ipynb"


def printed(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)


@pytest.mark.pinned
@pytest.mark.slow
def test_first_pipeline_takes_each_record_once_and_ends_with_a_conserved_audit(stack: Addresses) -> None:
    """3,000 flights and one more, three of them damaged; the kernel finds the run's own stack in the environment."""
    notebook = nbformat.read(FIRST, as_version=4)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": NOTEBOOKS}})
    # A driver that lives for seconds spends them on its compiler.
    spark = {"LAKEINGEST_DRIVER_MEMORY": "1g", "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
    client.execute(env={**os.environ, **spark})
    text = printed(notebook)
    assert "Counts(consumed=3000, accepted=2997, refused=3, dropped=0)" in text
    assert "Counts(consumed=1, accepted=1, refused=0, dropped=0)" in text
    assert "3001 consumed = 2998 in the table + 3 in quarantine" in text
    assert text.rstrip().endswith("0 missing, 0 duplicated, conserved: True")
