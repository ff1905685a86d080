"""What goes to EMR: the script, the bootstrap action, and the packed environment, in which a job really runs.

There is no EMR here. The job runs with the open-source Spark of each release: 4.0.2 with Delta 4.0.0 for
emr-spark-8.0.0, and 4.1.1 with Delta 4.4.0 for emr-spark-8.1.0, which has Delta 4.2.0.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from support.pipelines import values_of
from support.records import mixed_records, produce
from support.servers import infra_tools, spark_versions

from lakeingest.local import Addresses, artifacts

pytestmark = [pytest.mark.infra, pytest.mark.slow]
EMR = infra_tools.INFRA / "emr"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What infra/emr/package.py makes, for the Python of this machine."""
    out = tmp_path_factory.mktemp("packed")
    environment = {**os.environ, "PYTHONPATH": str(infra_tools.ROOT)}
    command = [sys.executable, EMR / "package.py", out]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def test_shellcheck(tmp_path: Path) -> None:
    """Nothing is found in the bootstrap action; a name that may be split is."""
    script = EMR / "bootstrap.sh"
    done = infra_tools.run("checks", "shellcheck", "--enable=all", "--exclude=SC2250", script)
    assert (done.returncode, done.stdout) == (0, "")
    spoilt = tmp_path / "spoilt.sh"
    spoilt.write_text(script.read_text().replace('-m venv "$folder"', "-m venv $folder"))
    assert "SC2086" in infra_tools.run("checks", "shellcheck", spoilt).stdout


def bootstrap(code: Path, folder: Path, bin: Path) -> subprocess.CompletedProcess[str]:
    """The bootstrap action, with stand-ins for `aws`, which copies from a folder, and `sudo`, which asks nobody."""
    bin.mkdir()
    # aws s3 cp --recursive --exclude … --include … --include … FROM TO
    (bin / "aws").write_text('#!/bin/sh\nfor last; do :; done\ncp "${CODE}"/*.whl "${CODE}/constraints.txt" "$last"\n')
    (bin / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (bin / "python3.11").symlink_to(sys.executable)
    for made in ("aws", "sudo"):
        (bin / made).chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}", "CODE": str(code), "PYTHONPATH": ""}
    words = [EMR / "bootstrap.sh", "s3://work/code/", folder]
    return subprocess.run(words, check=False, capture_output=True, text=True, env=environment, timeout=600)


def test_the_bootstrap_action_installs_the_wheel(packed: Path, tmp_path: Path) -> None:
    """Into an environment of its own, with the pins, and without a pyspark beside EMR's."""
    done = bootstrap(packed, tmp_path / "there", tmp_path / "bin")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("lakeingest 0.")
    command = [tmp_path / "there" / "bin" / "python", "-m", "pip", "list", "--format=json"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    has = {canonicalize_name(each["name"]): each["version"] for each in listed}
    assert "pyspark" not in has
    lines = (infra_tools.ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    assert {name for name, version in has.items() if pinned.get(name) != version} - {"pip", "setuptools"} == {
        "lakeingest"
    }


def test_two_wheels_are_one_too_many(packed: Path, tmp_path: Path) -> None:
    """Which one is meant, nobody knows: the node does not come up, and says why."""
    code = tmp_path / "code"
    code.mkdir()
    for name in ("lakeingest-0.1.0-py3-none-any.whl", "lakeingest-0.0.9-py3-none-any.whl", "constraints.txt"):
        (code / name).touch()
    done = bootstrap(code, tmp_path / "there", tmp_path / "bin")
    assert done.returncode == 1
    assert "s3://work/code/ has to hold one wheel of lakeingest; it holds: lakeingest-0.0.9" in done.stderr
    assert not (tmp_path / "there").exists()


@pytest.fixture(params=[("emr-spark-8.0.0", "spark-4.0"), ("emr-spark-8.1.0", "spark-4.1")], ids=lambda pair: pair[0])
def job(request: pytest.FixtureRequest, packed: Path, stack: Addresses, tmp_path: Path, named: str) -> Any:
    """spark-submit of a job as EMR Serverless starts it: with these options, in a folder with the unpacked archives."""
    release, version = request.param
    sys.path.insert(0, str(EMR))
    try:
        import spark_options
    finally:
        sys.path.pop(0)
    lacking = artifacts.fetch(release, listing=spark_options.LISTING)
    for artifact, jar in zip(spark_options.lacking(release), lacking, strict=True):
        shutil.copy2(jar, packed / "jars" / artifact.file)
    shutil.unpack_archive(packed / "environment.tar.gz", tmp_path / "environment")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "p.yaml").write_text(json.dumps(values_of(stack, named)))
    files = shutil.make_archive(str(tmp_path / "files"), "zip", tmp_path / "beside")
    own = spark_versions.jars(spark_versions.MATRIX / f"{version}-jars.txt")
    delta = [str(jar) for jar in own if jar.name.startswith("io.delta__")]
    hadoop = [
        str(jar) for jar in own if not jar.name.startswith(("io.delta__", "org.apache.spark__", "org.apache.kafka"))
    ]
    options = spark_options.on_emr(str(packed), files, release)
    jars = [jar for jar in options["spark.jars"].split(",") if not jar.startswith("/usr/share/aws/")]
    options["spark.jars"] = ",".join([*delta, *jars])
    options["spark.driver.extraClassPath"] = os.pathsep.join(hadoop)
    options |= {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    home = spark_versions.python(version).parent
    (spark,) = home.parent.glob("lib/python3.*/site-packages/pyspark")
    environment = {
        **{
            name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "SPARK_HOME")
        },
        "PYSPARK_DRIVER_PYTHON": options.pop("spark.emr-serverless.driverEnv.PYSPARK_DRIVER_PYTHON"),
        "PYSPARK_PYTHON": str(tmp_path / "environment" / "bin" / "python"),
        "PATH": f"{home}:{os.environ['PATH']}",
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

    def submit(*words: str) -> subprocess.CompletedProcess[str]:
        given = [word for name, value in options.items() for word in ("--conf", f"{name}={value}")]
        command = [home / "spark-submit", "--master", "local[2]", *given, EMR / "job.py", *words]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300
        )

    return submit


def result(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON of a command; spark-submit puts the log, of which each line is JSON, before it into the same stream."""
    return json.loads(done.stdout[done.stdout.index("{\n") :])


def test_a_job_runs(job: Any, stack: Addresses, named: str) -> None:
    """The packed environment has all that a run needs; its exit code and its JSON are the command's."""
    produce(stack, named, mixed_records(20))
    ran = job("run", "p.yaml", "--until-caught-up", "--log-format", "json", "--output", "json")
    assert ran.returncode == 0, ran.stderr[-4000:]
    said = result(ran)
    assert (said["consumed"], said["accepted"], said["refused"], said["lag"]) == (20, 16, 4, 0)
    audited = job("audit", "p.yaml", "--output", "json")
    assert audited.returncode == 0, audited.stderr[-4000:]
    assert result(audited)["conserved"]
    assert job("run", "none.yaml", "--until-caught-up").returncode == 2


def test_the_environment_has_no_spark(packed: Path) -> None:
    """EMR's would be hidden by it, and a gigabyte would be copied to each worker. Python is a link to their own."""
    assert (packed / "environment.tar.gz").stat().st_size < 300 * 2**20
    with tarfile.open(packed / "environment.tar.gz") as archive:
        names = archive.getnames()
        assert [name for name in names if "/pyspark/" in name] == []
        assert any(name.endswith("/lakeingest/spark/jvm/lakeingest.jar") for name in names)
        python = archive.getmember("bin/python3.11") if "bin/python3.11" in names else archive.getmember("bin/python")
        assert python.issym()
