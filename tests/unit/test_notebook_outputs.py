"""The notebooks as they are committed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)


def cells(file: Path, kind: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == kind]


@each_notebook
def test_notebook_is_committed_without_outputs(file: Path) -> None:
    """Outputs are of one machine and one day."""
    code = cells(file, "code")
    assert [(cell.outputs, cell.execution_count) for cell in code] == [([], None)] * len(code)


@each_notebook
def test_cells_are_short(file: Path) -> None:
    """A cell fits a screen, and is Python."""
    for cell in cells(file, "code"):
        assert len(cell.source.splitlines()) <= 45, cell.id
        ast.parse(cell.source)


def tables(file: Path) -> set[str]:
    return {*re.findall(r"s3a://lake/([\w{}]+)", "\n".join(cell.source for cell in cells(file, "code")))}


@each_notebook
def test_notebook_has_tables_of_its_own(file: Path) -> None:
    """They can be run one after the other, in any order, on one stack."""
    assert tables(file)
    assert [other.stem for other in NOTEBOOKS if other != file and tables(file) & tables(other)] == []


def test_every_notebook_is_on_the_page_that_lists_them() -> None:
    """And in the order of their numbers."""
    page = (ROOT / "docs" / "how-to" / "notebooks.md").read_text(encoding="utf-8")
    assert re.findall(r"`(\d\d_\w+\.ipynb)`", page) == [file.name for file in NOTEBOOKS]
