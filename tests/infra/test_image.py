"""The Dockerfile by its linter and by its steps, and the unit of systemd. No image was built: there is no engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from support.servers import infra_tools, installation

pytestmark = pytest.mark.infra
DOCKERFILE = infra_tools.INFRA / "Dockerfile"
UNIT = infra_tools.INFRA / "systemd" / "lakeingest@.service"


def test_hadolint(tmp_path: Path) -> None:
    """It finds nothing that is not explained beside it; a spoilt file is found."""
    done = infra_tools.run("checks", "hadolint", "--no-color", DOCKERFILE)
    assert (done.returncode, done.stdout) == (0, "")
    text = DOCKERFILE.read_text()
    for ignored in re.finditer(r"# hadolint ignore=", text):
        assert text[: ignored.start()].splitlines()[-1].startswith("# "), "a reason stands in the line before"
    for spoil, rule in (
        (text.replace("# hadolint ignore=DL3008\n", ""), "DL3008"),
        (text.replace(":3.11-slim-bookworm", ":latest"), "DL3007"),
        (text.replace("--no-cache-dir ", ""), "DL3042"),
        (text.replace("WORKDIR /source", "WORKDIR source"), "DL3000"),
    ):
        (tmp_path / "Dockerfile").write_text(spoil)
        assert rule in infra_tools.run("checks", "hadolint", "--no-color", tmp_path / "Dockerfile").stdout


def steps(stage: str) -> list[str]:
    """What the instructions RUN of a stage say, in one line each."""
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    (block,) = re.findall(rf"^FROM \S+ AS {stage}\n(.*?)(?=^FROM |\Z)", text, re.MULTILINE | re.DOTALL)
    return [" ".join(step.split()) for step in re.findall(r"^RUN (.*)$", block, re.MULTILINE)]


@pytest.mark.slow
def test_the_steps_of_the_image(tmp_path: Path) -> None:
    """The steps of pip and of the jars, in a fresh environment instead of the base image: what is copied is enough.

    Then `lakeingest` of that environment checks a pipeline file, and knows its metrics.
    """
    (wheel,), (_, install, fetch) = steps("wheel"), steps("run")
    source = tmp_path / "source"
    for copied in re.findall(r"^COPY ((?!--from)[^\n]+)$", DOCKERFILE.read_text(), re.MULTILINE)[:2]:
        *names, _ = copied.split()
        for name in names:
            given = infra_tools.ROOT / name
            if given.is_dir():
                for file in installation.tracked():
                    if file.startswith(f"{name}/"):
                        (source / file).parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(infra_tools.ROOT / file, source / file)
            else:
                source.mkdir(exist_ok=True)
                shutil.copy2(given, source / name)
    venv.create(tmp_path / "image", with_pip=True)
    bin = tmp_path / "image" / "bin"
    (tmp_path / "wheels").mkdir()
    shutil.copy2(infra_tools.ROOT / "constraints.txt", tmp_path / "wheels")
    environment = {
        "PATH": f"{bin}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LAKEINGEST_CACHE": str(tmp_path / "cache"),
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "LAKEINGEST_IVY", "JAVA"))},
    }
    for step in (wheel, install, fetch.partition(" && ")[0]):
        script = step.replace("/wheels", str(tmp_path / "wheels"))
        done = subprocess.run(
            script, shell=True, cwd=source, env=environment, check=False, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert len([*(tmp_path / "cache" / "spark").glob("*.jar")]) > 20
    variables = dict.fromkeys(("KAFKA_BOOTSTRAP_SERVERS", "KAFKA_USER", "KAFKA_PASSWORD"), "b:1")
    command = [bin / "lakeingest", "check", infra_tools.INFRA / "pipelines" / "flights.yaml"]
    done = subprocess.run(command, env={**environment, **variables}, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    imports = "import prometheus_client, boto3, aws_msk_iam_sasl_signer, great_expectations, pyspark, lakeingest"
    subprocess.run([bin / "python", "-c", imports], check=True, env=environment, cwd=tmp_path)


def verified(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """systemd's own check of a unit, in which the program is one that this machine has."""
    path = folder / "lakeingest@flights.service"
    path.write_text(text.replace("/opt/lakeingest/bin/lakeingest", sys.executable))
    return subprocess.run(["systemd-analyze", "verify", path], check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_the_unit(tmp_path: Path) -> None:
    """systemd has nothing to say of it, but of a spoilt one; what it exposes is little, by systemd's own measure."""
    text = UNIT.read_text()
    done = verified(text, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    spoilt = verified(text.replace("ProtectSystem=strict", "ProtectSystm=strict"), tmp_path)
    assert "Unknown key" in spoilt.stderr
    assert "Failed to parse" in verified(text.replace("KillMode=mixed", "KillMode=some"), tmp_path).stderr
    path = tmp_path / "lakeingest@flights.service"
    for changed, most in ((text, 2.0), (re.sub(r"(?m)^(Protect|Restrict|Capab|System).*\n", "", text), 10.0)):
        path.write_text(changed)
        command = ["systemd-analyze", "security", "--offline=true", path]
        told = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60).stdout
        (exposed,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", told)
        assert most - 8 < float(exposed) <= most
