"""Pack what jobs on EMR need, into a folder that is then copied to S3 as it is:

    python infra/emr/package.py build/emr [RELEASE]
    aws s3 cp --recursive build/emr s3://WORK-BUCKET/code

Run it on the platform of EMR's workers, Linux on x86_64, where `make venv PYTHON=/usr/bin/python3.11` was run: the
packed environment has a link to that Python, which lies there on the workers too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from spark_options import LISTING, RELEASE, lacking

from lakeingest.local import artifacts
from lakeingest.spark import jvm

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = "glue,msk,gate"


def pack(out: Path, release: str = RELEASE) -> None:
    """The wheel and its pins, an environment with both, and the jars that the release lacks.

    Raises:
        SystemExit: nobody has listed those.
        CalledProcessError: pip could not; it says why on stderr.
        SetupError: the jars cannot be had.
    """
    jars = lacking(release)
    (out / "jars").mkdir(parents=True, exist_ok=True)
    for artifact, jar in zip(jars, artifacts.fetch(release, listing=LISTING), strict=True):
        shutil.copy2(jar, out / "jars" / artifact.file)
    shutil.copy2(jvm.JAR, out / "jars")
    for file in (ROOT / "constraints.txt", ROOT / "infra" / "emr" / "job.py", ROOT / "infra" / "emr" / "bootstrap.sh"):
        shutil.copy2(file, out)
    _run(sys.executable, "-m", "build", "--quiet", "--wheel", "--no-isolation", "--outdir", out, ROOT)
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "environment"
        venv.create(environment, with_pip=True, symlinks=True)
        python = environment / "bin" / "python"
        (wheel,) = out.glob("lakeingest-*.whl")
        # EMR brings pyspark, which must not be in it; Protobuf and offline reads want pyarrow.
        wanted = (f"{wheel}[{EXTRAS}]", "pyarrow", "venv-pack==0.2.0")
        # -I: a lakeingest that PYTHONPATH shows would count as installed.
        _run(python, "-I", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *wanted)
        # By itself it packs the environment that the shell has activated.
        packing = ("--prefix", environment, "--output", out / "environment.tar.gz")
        _run(python, "-I", "-m", "venv_pack", "--quiet", "--force", *packing)


def _run(*words: str | Path) -> None:
    subprocess.run(list(map(str, words)), check=True)


if __name__ == "__main__":
    pack(Path(sys.argv[1]).absolute(), *sys.argv[2:])
