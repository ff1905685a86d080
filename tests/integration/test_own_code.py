"""Code of somebody's own, as docs/how-to/own-code.md has it: decoder, partitioner, listener; and wrong code."""

from __future__ import annotations

import json
import re
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from ruamel.yaml import YAML
from support.pipelines import World
from support.records import clean_records
from typer.testing import CliRunner

import lakeingest
from lakeingest import extend
from lakeingest.cli import app
from lakeingest.delta.receipt import Counts
from lakeingest.errors import UsageError
from lakeingest.local import Addresses

PAGE = (Path(lakeingest.__file__).parent.parent / "docs" / "how-to" / "own-code.md").read_text(encoding="utf-8")

WRONG = """
from pyspark.sql import functions as F

class Many:
    columns = "n INT"
    def compute(self, columns):
        return {"n": F.explode(F.array(F.lit(1), F.lit(2)))}

class Another:
    columns = "n INT"
    def compute(self, columns):
        return {"m": F.lit(1)}

class Raises:
    columns = "n INT"
    def compute(self, columns):
        return {"n": columns["no such column"]}

class Unmade:
    def __init__(self, argument): ...

class Nothing: ...

class Ddl:
    columns = "n INTT"
    def compute(self, columns): ...

class Loud:
    def heard(self, pipeline, event):
        raise ValueError("nobody is there")
"""


@pytest.fixture
def company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's module, and one of wrong classes."""
    found = re.search(r'```python title="company.py"\n(.*?)```', PAGE, re.DOTALL)
    assert found
    (tmp_path / "company.py").write_text(found[1])
    (tmp_path / "wrong.py").write_text(WRONG)
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("company", "wrong"):
        sys.modules.pop(module, None)
    extend.step.cache_clear()
    return tmp_path


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    found = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found
    written = YAML(typ="safe").load(found[1])
    parts = {part: written[part] for part in ("decode", "transform", "partition", "listeners")}
    return World(stack, spark, named, schema=None, **parts)


def test_the_page(world: World, company: Path) -> None:
    """Rows, a partition, what the decoder refuses with its reason, and what the listener heard."""
    world.produce(b"20240229001250Ada", b"20240230000001Bob", b"short", b"20240301000100Zoe", b"2024030100010xNo")
    (file := company / "p.yaml").write_text(json.dumps(world.values()))
    said = CliRunner().invoke(app, ["run", str(file), "--until-caught-up"])
    assert isinstance(said.exception, UsageError)
    assert "names code to run: company:FixedWidth, company:Region, company:Pager" in str(said.exception)
    assert "company" not in sys.modules
    said = CliRunner().invoke(app, ["run", str(file), "--until-caught-up", "--allow-code"])
    assert said.exit_code == 0, said.output
    assert f"{world.name}: Committed" in said.output
    rows = [(r["day"], r["amount"], r["name"], r["region"]) for r in world.rows()]
    assert rows == [
        (date(2024, 2, 29), Decimal("12.50"), "Ada", "north"),
        (date(2024, 3, 1), Decimal("1.00"), "Zoe", "south"),
    ]
    assert "value" not in world.rows()[0]
    told = "transform[0].own.company:FixedWidth: "
    assert [(r["_offset"], r["stage"], r["reason"], r["message"].removeprefix(told)) for r in world.refused] == [
        (1, "transform", "NOT_COMPUTED", "day is required, and null"),
        (2, "transform", "NOT_COMPUTED", "shorter than 15 characters"),
        (4, "transform", "NOT_COMPUTED", "amount is required, and null"),
    ]
    said = CliRunner().invoke(app, ["maintain", str(file), "--allow-code"])
    assert said.output.count(f"{world.name}: Maintained") == 2
    # What asks no code needs no permission.
    world.checked()
    assert "Maintained" not in CliRunner().invoke(app, ["maintain", str(file)]).output
    assert CliRunner().invoke(app, ["check", str(file)]).exit_code == 0
    with pytest.raises(UsageError, match="names code to run"):
        world.ingestion().plan()


@pytest.mark.usefixtures("company")
@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("wrong:Many", "makes no columns: AnalysisException"),
        ("wrong:Another", "it made m, and declares n"),
        ("wrong:Raises", "makes no columns: KeyError: 'no such column'"),
        ("wrong:Unmade", "wrong:Unmade cannot be used: TypeError"),
        ("wrong:Nothing", "wrong:Nothing is no step: it lacks columns"),
        ("wrong:Ddl", "'INTT': not a type"),
        ("wrong:None", "wrong:None cannot be used: AttributeError"),
        ("nowhere:X", "nowhere:X cannot be used: ModuleNotFoundError"),
        ("nobody", "no installed package has an entry point 'nobody'"),
    ],
)
def test_code_that_cannot_be_used(world: World, own: str, said: str) -> None:
    """A sentence, and nothing is consumed."""
    world.changes = {"transform": [{"own": own}]}
    world.produce(*clean_records(2))
    with pytest.raises(lakeingest.LakeingestError) as wrong:
        lakeingest.Pipeline(world.ingestion().config, allow_code=True).run(until_caught_up=True)
    assert said in f"{wrong.value} {getattr(wrong.value, 'problems', '')}"


@pytest.mark.usefixtures("company")
def test_a_listener_that_fails(world: World) -> None:
    """It is warned of, and the run goes on."""
    world.changes = {"listeners": ["wrong:Loud"]}
    world.produce(*clean_records(2))
    pipeline: Any = lakeingest.Pipeline(world.ingestion().config, allow_code=True)
    with pytest.warns(UserWarning, match="listener Loud failed: ValueError"):
        assert pipeline.run(until_caught_up=True) == Counts(2, 2)
    world.checked()
