"""The notebook as it is committed."""

from __future__ import annotations

from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

FIRST = NOTEBOOKS / "01_first_pipeline.ipynb"


def test_notebook_is_committed_without_outputs() -> None:
    """Outputs are of one machine and one day."""
    notebook = nbformat.read(FIRST, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [(cell.outputs, cell.execution_count) for cell in cells] == [([], None)] * len(cells)
