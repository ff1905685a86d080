"""The audit names what is missing, doubled or unexpected."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from pyarrow import fs
from support.pipelines import World
from support.pipelines.command_line import Command
from support.records import mixed_records

from lakeingest.delta.reader.log import store as store_of


@pytest.mark.slow
def test_the_audit_names_a_deleted_row(world: World) -> None:
    """A row that somebody deleted is missing, by its coordinates."""
    world.produce(*mixed_records(10))
    world.run()
    world.spark.sql(f"DELETE FROM delta.`s3a://lake/{world.name}` WHERE _offset = 7")
    report = world.ingestion().audit()
    assert (report.conserved, report.missing) == (False, 1)
    assert report.named == {"missing": [f"{world.name}-0 offsets 7 to 7"]}


@pytest.mark.faults
def test_the_audit_names_rows_too_many(world: World) -> None:
    """A copied row is duplicated, one of an offset that was never consumed is unexpected."""
    world.produce(*mixed_records(10))
    world.run()
    table = world.spark.read.format("delta").load(world.path())
    strange = table.where("_offset = 7").selectExpr("* EXCEPT (_offset)", "explode(array(7L, 107L)) AS _offset")
    strange.select(*table.columns).write.format("delta").mode("append").save(world.path())
    report = world.ingestion().audit()
    assert (report.conserved, report.duplicated, report.unexpected, report.missing) == (False, 1, 1, 0)
    assert report.named["duplicated"] == [f"{world.name}-0 offset 7"]
    assert report.named["unexpected"] == [f"{world.name}-0 offset 107"]


@pytest.mark.slow
def test_openssl_checks_a_signed_verdict(world: World, lakeingest: Command, tmp_path: Path) -> None:
    """Beside a table on S3, by the public key alone."""
    world.produce(*mixed_records(10))
    world.run()
    file, key, public = (tmp_path / name for name in ("pipeline.yaml", "key.pem", "public.pem"))
    file.write_text(yaml.safe_dump(world.values()))
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
    for number in (1, 2):
        said = lakeingest("audit", str(file), "--sign", str(key))
        assert f"kept as verdict {number} beside the table" in said.out, said
    store, folder = store_of(f"{world.path()}_proofs", world.ingestion().storage)
    objects = sorted(info.path for info in store.get_file_info(fs.FileSelector(folder)))
    for name in objects:
        (tmp_path / name.rpartition("/")[2]).write_bytes(store.open_input_stream(name).read())
    checked = []
    for verdict in sorted(tmp_path.glob("*.json")):
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", verdict]
        checked.append(subprocess.run([*command, "-sigfile", f"{verdict}.sig"], check=False, capture_output=True))
    assert [each.returncode for each in checked] == [0, 0]
