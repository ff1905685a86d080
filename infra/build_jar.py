"""Builds lakeingest/spark/jvm/lakeingest.jar: the same sources on JDK 17 give the same bytes.

    python infra/build_jar.py [OUT]

Delta, hadoop-aws and the AWS SDK are those of the embedded stack's pinned jars; Hadoop and Spark come from pyspark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

from lakeingest.local import artifacts

HERE = Path(__file__).resolve().parents[1] / "lakeingest" / "spark" / "jvm"
EPOCH = (1980, 1, 1, 0, 0, 0)


def build(out: Path) -> Path:
    """Compile the classes against the pinned jars and pyspark's own, and write them to `out`."""
    jars = (*artifacts.fetch("spark"), Path(pyspark.__file__).parent / "jars" / "*")
    with tempfile.TemporaryDirectory() as scratch:
        options = ["--release", "17", "-Xlint:all,-path,-classfile", "-cp", os.pathsep.join(map(str, jars))]
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
    build(Path(sys.argv[1]) if sys.argv[1:] else HERE / "lakeingest.jar")
