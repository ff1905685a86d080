"""The notebooks run from the first cell to the last, and what they show is true.

`make test-notebooks` runs each in a kernel of its own, which starts a Spark; `make test` one of them in this process.
"""

from __future__ import annotations

import os

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from nbformat import NotebookNode
from pyspark.sql import SparkSession
from support.pipelines.notebooks import FOLDER, NAMES, SAYS

from lakeingest.local import Addresses

pytestmark = [pytest.mark.classic, pytest.mark.pinned, pytest.mark.slow]


def execute(name: str) -> NotebookNode:
    """Run a notebook in a kernel of its own, which finds the run's stack in the environment."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": FOLDER}})
    # A driver that lives for seconds spends them on its compiler.
    spark = {"LAKEINGEST_DRIVER_MEMORY": "1g", "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
    client.execute(env={**os.environ, **spark})
    return notebook


def check(name: str, notebook: NotebookNode) -> None:
    """What the notebook shows is true, comes without a warning, and ends with a picture."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    said = "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs)
    assert [text for text in SAYS[name] if text not in said] == [], said
    assert "Warning" not in said
    assert "image/png" in outputs[-1]["data"]


# pandas warns of what pyspark does; a kernel would show it.
@pytest.mark.filterwarnings("ignore:The copy keyword is deprecated")
def test_one_notebook(stack: Addresses, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are taken once, and the audit is conserved."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    name, shell = NAMES[0], InteractiveShell()
    cells = [cell for cell in nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells if cell.cell_type == "code"]
    with capture_output() as said:
        for cell in cells:
            shell.run_cell(cell.source, silent=False).raise_error()
    assert [text for text in SAYS[name] if text not in said.stdout] == [], said.stdout


@pytest.mark.notebooks
@pytest.mark.parametrize("name", NAMES)
def test_notebook(stack: Addresses, name: str) -> None:
    """Each of them."""
    check(name, execute(name))
