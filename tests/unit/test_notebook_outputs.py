"""The notebooks as they are committed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
import pytest
from support.pipelines.notebooks import NAMES, SAYS

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
each_notebook = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)


def cells(file: Path, kind: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == kind]


PRIVATE = re.compile(
    r"/(?:tmp|home|root|Users|work|private|var)/|127\.0\.0\.1:(?!9092|8333|8081)|AKIA|[\w.]+@(?!host-1)[\w.]+|\.venv"
)
"""What outputs of a machine hold: paths, ports, keys, and users on hosts."""


@each_notebook
def test_notebook_shows_what_it_prints(file: Path) -> None:
    """It had no outputs: nobody saw a table without a run. They are those of one run, in the order of its cells."""
    code = cells(file, "code")
    assert [cell.execution_count for cell in code] == [*range(1, len(code) + 1)]
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    assert "image/png" in outputs[-1].data
    texts = [o.get("text") or "".join(v for k, v in o.data.items() if k != "image/png") for o in outputs]
    assert [text for text in SAYS[file.stem] if text not in "\n".join(texts)] == []
    assert [found.group() for text in texts for found in PRIVATE.finditer(text)] == []


def test_what_they_say_is_looked_at() -> None:
    """Of each notebook that there is."""
    assert sorted(SAYS) == NAMES


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
