"""Grafana's dashboard by the compiler: its JSON has the types that Grafana publishes of it, and nothing besides."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.servers import npm

pytestmark = pytest.mark.alerts
DASHBOARD = Path(__file__).resolve().parents[2] / "infra" / "grafana" / "lakeingest.json"
SCHEMA = (
    "@grafana/schema",
    "13.2.3",
    "rk8FEO7yuFfRTK/JD39747SZFQ+iCTQbpm6Mh2OjnqGx/g/uQQFx56t64eCLXWEyoR68ru4cigcGKrXk+ozrLg==",
)
TYPESCRIPT = (
    "typescript",
    "5.9.3",
    "jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw==",
)
# A literal may have no field that its type has not. Of a query the schema knows what all data sources have; expr and
# legendFormat are Prometheus' own. In JSON an enum's member is its text.
_TYPED = """
import type { Dashboard, DataQuery, DataSourceRef, FieldConfigSource, Panel } from '@grafana/schema';
import type { FieldConfig, Options } from 'TIMESERIES';

type Plain<T> = T extends string ? `${T}` : T extends Array<infer Each> ? Array<Plain<Each>>
  : T extends object ? { [Name in keyof T]: Plain<T[Name]> } : T;
interface Query extends Omit<DataQuery, 'datasource'> { datasource: DataSourceRef; expr: string; legendFormat: string }
interface Drawn extends Omit<Panel, 'type' | 'options' | 'fieldConfig' | 'targets'> {
  type: 'timeseries';
  options: Options;
  fieldConfig: FieldConfigSource<FieldConfig>;
  targets: Query[];
}
interface Board extends Omit<Dashboard, 'panels'> { panels: Drawn[] }

export const board: Plain<Board> = """


def compiled(board: dict[str, Any], folder: Path) -> list[str]:
    """What the compiler says against a dashboard, a line each."""
    if shutil.which("node") is None:
        pytest.skip("node is missing, which runs TypeScript's compiler")
    types = npm.package(*SCHEMA) / "dist" / "types"
    timeseries = types / "raw" / "composable" / "timeseries" / "panelcfg" / "x" / "types.gen"
    (folder / "board.ts").write_text(f"{_TYPED.replace('TIMESERIES', str(timeseries))}{json.dumps(board, indent=1)};\n")
    options = {
        "strict": True,
        "noEmit": True,
        "skipLibCheck": True,
        "module": "esnext",
        "moduleResolution": "bundler",
        "types": [],
        "paths": {"@grafana/schema": [str(types / "index.d.ts")]},
    }
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["board.ts"]}))
    command = ["node", npm.package(*TYPESCRIPT) / "bin" / "tsc", "--pretty", "false", "-p", folder]
    said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert (said.returncode == 0) == (not said.stdout), said.stderr
    return said.stdout.splitlines()


@pytest.fixture
def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def test_the_dashboard_has_grafanas_types(board: dict[str, Any], tmp_path: Path) -> None:
    """No field is unknown, none is missing, and each value is one that is allowed."""
    assert compiled(board, tmp_path) == []


SPOILT: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "an unknown field": (lambda b: b.update(panles=[]), "panles"),
    "of a panel": (lambda b: b["panels"][0].update(titel="x"), "titel"),
    "of its options": (lambda b: b["panels"][0]["options"]["legend"].update(place="bottom"), "place"),
    "of a query": (lambda b: b["panels"][0]["targets"][0].update(expression="up"), "expression"),
    "an unknown type of panel": (lambda b: b["panels"][0].update(type="timeserie"), '"timeserie"'),
    "a value that is not allowed": (lambda b: b["panels"][0]["options"]["tooltip"].update(mode="all"), '"all"'),
    "a wrong type": (lambda b: b["panels"][0]["gridPos"].update(w="8"), "'string' is not assignable to type 'number'"),
    "a field that is missing": (lambda b: b["panels"][0]["gridPos"].pop("w"), "'w' is missing"),
    "a variable of no kind": (lambda b: b["templating"]["list"][1].update(type="queri"), '"queri"'),
}


@pytest.mark.parametrize("spoilt", SPOILT)
def test_what_is_wrong_is_found(spoilt: str, board: dict[str, Any], tmp_path: Path) -> None:
    """Otherwise the test above would say nothing."""
    spoil, said = SPOILT[spoilt]
    spoil(board)
    assert said in "\n".join(compiled(board, tmp_path))
