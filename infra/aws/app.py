"""The CDK application: one stack for all pipeline files that its context names.

    cd infra/aws
    npx aws-cdk@2 synth -c account=111122223333 -c region=eu-west-1 -c pipelines=../pipelines/flights.yaml

The context is explained in docs/how-to/deploy.md. The pipeline files are checked as `lakeingest check` does; each
variable that they name has to be in the context: under `variables` with its value, or under `secrets` with the ARN of
the secret that holds it. Secrets themselves are not read, and so are in no template.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "emr"))

import aws_cdk
from stack import LakeStack, Settings

from lakeingest.cli import pipeline_file as cli
from lakeingest.config import PipelineConfig
from lakeingest.config import file as pipeline_file
from lakeingest.errors import LakeingestError


def main() -> None:
    """Write the template into the folder that the CDK names ($CDK_OUTDIR)."""
    app = aws_cdk.App()
    asked = {name: app.node.try_get_context(name) for name in (*Settings.__annotations__, "account", "region")}
    missing = [name for name in ("account", "region", "pipelines") if not asked[name]]
    if missing:
        raise SystemExit(f"the context lacks {', '.join(missing)}; write -c {missing[0]}=…")
    where = aws_cdk.Environment(account=str(asked.pop("account")), region=asked.pop("region"))
    given = {name: _mapping(name, asked.pop(name)) for name in ("variables", "secrets")}
    try:
        files = [Path(each).absolute() for each in asked.pop("pipelines").split(",")]
        configs = {file: _read(file, {**given["variables"], **given["secrets"]}) for file in files}
        settings = Settings(pipelines=configs, **given, **{name: value for name, value in asked.items() if value})
        LakeStack(app, "Lakeingest", settings, env=where)
    except LakeingestError as mistake:
        raise SystemExit(str(mistake)) from None
    app.synth()


def _mapping(name: str, value: Any) -> dict[str, str]:
    """A mapping of cdk.json, or JSON of the command line."""
    try:
        return dict(json.loads(value) if isinstance(value, str) else value or {})
    except ValueError as error:
        raise SystemExit(f'{name} is no JSON ({error}); write -c {name}=\'{{"NAME": "…"}}\'') from None


def _read(file: Path, given: Mapping[str, str]) -> PipelineConfig:
    """A pipeline file as its job will find it: with these variables, in a folder with what lies beside it, and no more.

    Raises:
        LakeingestError: something is wrong, or missing.
    """
    with TemporaryDirectory() as scratch, redirect_stdout(sys.stderr):
        if not file.is_file():
            return pipeline_file.read(file, given)
        copy = Path(shutil.copytree(file.parent, Path(scratch) / file.parent.name)) / file.name
        config = pipeline_file.read(copy, given)
        os.environ.update(given)
        # It reads the suite too. Of stdout the CDK may be the reader.
        cli.check([copy])
        return config


if __name__ == "__main__":
    main()
