"""The CDK application: one stack for all pipeline files that its context names.

    cd infra/aws
    npx aws-cdk@2 synth -c account=111122223333 -c region=eu-west-1 -c pipelines=../pipelines/flights.yaml

The context is explained in docs/how-to/deploy.md. The pipeline files are checked as `lakeingest check` does, so each
variable that they name has to be set. No value of one goes into the template, but those of the context `variables`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.append(str(Path(__file__).resolve().parent.parent / "emr"))

import aws_cdk
from stack import LakeStack, Settings

from lakeingest.cli import pipeline_file as cli
from lakeingest.config import PipelineConfig
from lakeingest.config import file as pipeline_file


def main() -> None:
    """Write the template into the folder that the CDK names ($CDK_OUTDIR)."""
    app = aws_cdk.App()
    asked = {name: app.node.try_get_context(name) for name in (*Settings.__annotations__, "account", "region")}
    missing = [name for name in ("account", "region", "pipelines") if not asked[name]]
    if missing:
        raise SystemExit(f"the context lacks {', '.join(missing)}; write -c {missing[0]}=…")
    where = aws_cdk.Environment(account=str(asked.pop("account")), region=asked.pop("region"))
    files = [Path(each).absolute() for each in asked.pop("pipelines").split(",")]
    configs = {file: _read(file) for file in files}
    for name in ("variables", "secrets"):
        # Of the command line JSON, of cdk.json a mapping.
        if isinstance(asked[name], str):
            asked[name] = json.loads(asked[name])
    settings = Settings(pipelines=configs, **{name: value for name, value in asked.items() if value is not None})
    LakeStack(app, "Lakeingest", settings, env=where)
    app.synth()


def _read(file: Path) -> PipelineConfig:
    """A pipeline file. Jobs are given its folder and nothing else, so what it names has to lie there."""
    with TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(file.parent, Path(scratch) / file.parent.name)) / file.name
        # Of stdout the CDK may be the reader.
        with redirect_stdout(sys.stderr):
            cli.check([copy])
        return pipeline_file.read(copy, os.environ)


if __name__ == "__main__":
    main()
