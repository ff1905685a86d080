"""Builds lakeingest/spark/jvm/lakeingest.jar: the same sources on JDK 17 give the same bytes.

    python infra/build_jar.py JARS [OUT]

JARS is a folder with the jars of delta-storage, hadoop-aws and the AWS SDK's core; Hadoop and Spark come from pyspark.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

HERE = Path(__file__).resolve().parents[1] / "lakeingest" / "spark" / "jvm"
EPOCH = (1980, 1, 1, 0, 0, 0)


def build(jars: Path, out: Path) -> Path:
    """Compile the classes against `jars` and pyspark's own, and write them to `out`."""
    spark = Path(pyspark.__file__).parent / "jars"
    with tempfile.TemporaryDirectory() as scratch:
        options = ["--release", "17", "-Xlint:all,-path,-classfile", "-cp", f"{jars}/*:{spark}/*"]
        subprocess.run(["javac", *options, "-d", scratch, *map(str, sorted(HERE.glob("*.java")))], check=True)
        pack(Path(scratch), out)
    return out


def pack(classes: Path, out: Path) -> None:
    """Zip `classes` in a fixed order with a fixed time; stored, because zlibs differ between machines."""
    entries = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n"}
    entries |= {path.relative_to(classes).as_posix(): path.read_bytes() for path in sorted(classes.rglob("*.class"))}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as jar:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name, EPOCH)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            jar.writestr(info, content)


if __name__ == "__main__":
    jars, *out = map(Path, sys.argv[1:])
    build(jars, *(out or [HERE / "lakeingest.jar"]))
