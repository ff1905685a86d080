"""The notebooks run from the first cell to the last, and what they show is true.

`make test-notebooks` runs each in a kernel of its own, which starts a Spark; `make test` one of them in this process.
"""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from nbformat import NotebookNode
from pyspark.sql import SparkSession

from lakeingest.local import Addresses

pytestmark = [pytest.mark.classic, pytest.mark.pinned, pytest.mark.slow]

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(file.stem for file in FOLDER.glob("*.ipynb"))
SAYS: dict[str, tuple[str, ...]] = {
    "01_first_pipeline": (
        "Counts(consumed=3000, accepted=2997, refused=3, dropped=0)",
        "Counts(consumed=1, accepted=1, refused=0, dropped=0)",
        "first_pipeline: conserved, 3,001 consumed = 2,998 in the table + 3 in quarantine + 0 dropped",
    ),
    "02_explore_a_table": (
        "{1: 1000, 2: 1999, 3: 2997}",
        "before=TableFiles(count=9",
        "after=TableFiles(count=3",
        "explore: conserved, 3,000 consumed = 2,997 in the table + 3 in quarantine + 0 dropped",
    ),
    "03_quarantine_and_repair": (
        "Counts(consumed=400, accepted=296, refused=104, dropped=0)",
        "<Replayed 104 refused records looked at, 96 pass, 8 stay>",
        "(8, [])",
        "repair: conserved, 400 consumed = 392 in the table + 8 in quarantine + 0 dropped",
    ),
    "04_schema_evolution": (
        "<Plan stations: of 36 records sampled, 36 to the table, 0 to quarantine, 0 dropped>",
        "Counts(consumed=66, accepted=60, refused=6, dropped=0)",
        "<SchemaHistory stations: BACKWARD, 4 schemas seen, 4 columns now>",
    ),
    "05_quality_gates": (
        "expect_column_mean_to_be_between",
        "Counts(consumed=1000, accepted=998, refused=2, dropped=0)",
        "gates: conserved, 2,000 consumed = 1,995 in the table + 5 in quarantine + 0 dropped",
    ),
    "06_tuning": ("commits_per_day",),
}
"""Name → what is said somewhere in it."""


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


def test_what_they_say_is_looked_at() -> None:
    """Of each notebook that there is."""
    assert sorted(SAYS) == NAMES


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
