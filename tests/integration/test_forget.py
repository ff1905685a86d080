"""A person is forgotten: out of every table and every object, and whatever reads Kafka again leaves the records out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from support.pipelines import CHANGES, UPSERT, World
from support.pipelines.changes import encoded
from support.pipelines.command_line import Command
from support.pipelines.layers import Layers
from support.records import Record
from support.servers import s3_client

from lakeingest.delta.table import Table
from lakeingest.errors import NotForgotten, UsageError
from lakeingest.local import Addresses
from lakeingest.operations.erasure import job
from lakeingest.operations.erasure.records import ErasureRequest
from lakeingest.operations.results.erasure import Certificate

MAIL = "anna@example.com"
WHERE = f"mail = '{MAIL}'"


class KilledError(Exception):
    """The process ended here."""


COLUMNS = {"columns": "id INT NOT NULL, mail STRING, amount INT"}


@pytest.fixture
def layers(stack: Addresses, spark: SparkSession, named: str) -> Layers:
    return Layers(stack, spark, named)


def customers(count: int, broken: int = 3) -> list[bytes]:
    """Every fifth is Anna's; the first of hers are refused for their amount, and one record is no JSON at all."""
    values = [
        {"id": n, "mail": MAIL if n % 5 == 0 else f"{n}@example.com", "amount": "much" if n < broken else n}
        for n in range(count)
    ]
    return [*(json.dumps(value).encode() for value in values), f'{{"id": 1, "mail": "{MAIL}"'.encode()]


def forget(*worlds: World, search: tuple[str, ...] = (MAIL,), where: str = WHERE, **options: Any) -> Certificate:
    request = ErasureRequest(where, "request 123", search, options.pop("everything", False))
    return job.forget([world.ingestion().context for world in worlds], request, **options)


def objects_with(world: World, text: str, of: str) -> list[str]:
    """The keys below a table whose object holds a text: decoded by pyarrow, column by column, and as they are."""
    s3, bucket, keys = s3_client(world.stack), "lake", list[str]()
    prefix = world.path(of).removeprefix("s3a://lake/") + "/"
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for each in page.get("Contents", []):
            body = s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read()
            found = text.encode() in body
            if each["Key"].endswith(".parquet"):
                found = found or text in str(parquet.read_table(pa.BufferReader(body)).to_pylist())
            keys += [each["Key"]] if found else []
    s3.close()
    return keys


@pytest.mark.slow
def test_a_person_is_forgotten_everywhere(world: World) -> None:
    """Rows, refused records that decode and that do not; then every object is searched, by this test too."""
    world.changes = {"schema": COLUMNS}
    world.produce(*customers(40))
    world.run()
    planned = forget(world, dry_run=True)
    assert (planned.records, planned.pipelines[0].table, planned.pipelines[0].quarantine) == (9, 7, 2)
    assert world.ingestion().audit().removed["forgotten"] == 0
    certificate = forget(world, now=True)
    assert (certificate.records, certificate.pipelines[0].table, certificate.pipelines[0].quarantine) == (9, 7, 2)
    assert not [hit for hit in certificate.hits if hit.kind == "data"], certificate.hits
    assert certificate.failure is None
    for of in ("", "_quarantine", "_removed"):
        assert not [key for key in objects_with(world, MAIL, of) if "/_delta_log/" not in key]
    report = world.ingestion().audit()
    assert (report.conserved, report.removed["forgotten"], report.missing) == (True, 9, 0)
    assert not [row for row in world.rows() if row["mail"] == MAIL]


@pytest.mark.slow
def test_forgotten_is_not_read_again(world: World) -> None:
    """By a run from Kafka's beginning into new tables, a run behind a RESTORE, a replay, and a backfill."""
    world.changes = {"schema": COLUMNS}
    world.produce(*customers(40))
    world.run()
    before = Table(world.spark, world.path()).details() and world.commit_log().version
    forget(world)
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {before - 1}")
    world.run()
    assert not [row for row in world.rows() if row["mail"] == MAIL]
    assert world.ingestion().audit().conserved
    for of in ("", "_quarantine"):
        world.remove_table(of)
    world.run()
    world.ingestion().replay("again")
    report = world.ingestion().audit()
    assert (report.conserved, report.removed["forgotten"]) == (True, 9)
    assert not [row for row in world.rows() if row["mail"] == MAIL]
    assert not [row for row in world.refused if MAIL.encode() in row["value"]]


@pytest.mark.slow
def test_forgotten_though_a_restore_brings_it_back(world: World) -> None:
    """A RESTORE to a version that had the rows: the audit says so, and the same command takes them out once more."""
    world.changes = {"schema": COLUMNS}
    world.produce(*customers(40))
    world.run()
    before = world.commit_log().version
    forget(world)
    world.sql(f"RESTORE TABLE {{table}} TO VERSION AS OF {before}")
    report = world.ingestion().audit()
    assert (report.conserved, report.returned) == (False, 7)
    assert "the same `lakeingest forget`" in str(report.failure.cure)
    forget(world)
    assert world.ingestion().audit().conserved


@pytest.mark.slow
def test_the_latest_rows_are_forgotten(world: World) -> None:
    """With the memory of deletes, and the older records of the key, which are no rows and in Kafka all the same."""
    world.changes = {"schema": {"columns": CHANGES}, "table": UPSERT}
    changes = [(n % 5, n, "new", "U") for n in range(20)] + [(4, 30, "gone", "D"), (None, 1, "bad", "U")]
    world.produce(*(encoded(change) for change in changes))
    world.run()
    certificate = forget(world, where="id IN (3, 4)", search=())
    assert certificate.pipelines[0].table == 9
    report = world.ingestion().audit()
    assert (report.conserved, report.table, report.quarantine, report.removed["forgotten"]) == (True, 3, 1, 9)
    assert not [row for row in world.rows("_deletes") if row["key_1"] == 4]
    for of in ("", "_quarantine", "_deletes"):
        world.remove_table(of)
    world.run()
    assert {row["id"] for row in world.rows()} == {0, 1, 2}
    assert world.ingestion().audit().conserved


@pytest.mark.faults
def test_a_text_that_stays_is_told(world: World) -> None:
    """The condition leaves rows out that hold it: the certificate names their files."""
    world.changes = {"schema": COLUMNS}
    world.produce(*customers(10, broken=0)[:-1])
    world.run()
    certificate = forget(world, where="id = 5", now=True)
    assert not certificate.complete
    assert isinstance(certificate.failure, NotForgotten)
    assert "still in 1 data file" in certificate.failure.what
    assert forget(world, now=True).failure is None


@pytest.mark.slow
def test_requests_that_make_no_sense(world: World) -> None:
    world.changes = {"schema": COLUMNS}
    world.produce(*customers(10))
    world.run()
    for where, text in {
        "": "--where is empty",
        "amount +": "is no condition",
        "amount": "is not a boolean",
        "age > 3": "names columns that no table has",
        "true": "matches all 7 rows",
    }.items():
        with pytest.raises(UsageError, match=text):
            forget(world, where=where, search=())
    with pytest.raises(UsageError, match="3 characters or more"):
        forget(world, search=("an",))
    with pytest.raises(UsageError, match="add --i-know"):
        job.check_now(now=True, is_known=False)
    assert not world.ingestion().tables.removals.exists
    forget(world, where="true", search=(), everything=True)
    assert world.rows() == []
    assert world.ingestion().audit().conserved


@pytest.mark.faults
def test_forgotten_in_bronze_too(layers: Layers, lakeingest: Command, tmp_path: Path) -> None:
    """Bronze has no column of it, and a record that silver drops: coordinates lead there. A rebuild, and bronze filled
    from Kafka once more, leave the records out.
    """
    of_silver = {"schema": COLUMNS, "transform": [{"where": {"large": "amount >= 10"}}]}
    layers.produce(*customers(40, broken=0))
    layers.run()
    layers.fed(**of_silver)
    files = [tmp_path / "silver.yaml", tmp_path / "bronze.yaml"]
    for path, values in zip(files, (layers.silver_values(**of_silver), layers.values()), strict=True):
        path.write_text(json.dumps(values))
    words = ("--where", WHERE, "--why", "request 7", "--search", MAIL, "--output", "json")
    only_bronze = lakeingest("forget", files[1], *words)
    assert (only_bronze.code, "no table has" in only_bronze.err) == (2, True), only_bronze
    said = lakeingest("forget", *files, *words, "--now", "--i-know")
    certificate = json.loads(said.out)
    silver, bronze = certificate["pipelines"]
    assert (said.code, silver["table"], bronze["table"], bronze["by_coordinates"]) == (0, 6, 9, True), certificate
    assert not [hit for hit in certificate["hits"] if hit["kind"] == "data"]
    assert not [row for row in layers.rows() if MAIL.encode() in row["value"]]
    for pipeline in (layers.ingestion(), layers.silver(**of_silver)):
        report = pipeline.audit()
        assert (report.conserved, report.missing, report.returned) == (True, 0, 0), report
    for of in ("", "_quarantine"):
        layers.remove_table(of)
    layers.run()
    to = f"s3a://lake/{layers.name}_silver_2"
    rebuilt = json.loads(lakeingest("rebuild", files[0], "--to", to, "--output", "json").out)
    assert (rebuilt["audit"]["conserved"], rebuilt["audit"]["table"]) == (True, 24), rebuilt
    rows = layers.spark.read.format("delta").load(to)
    assert rows.where(WHERE).isEmpty()


@pytest.mark.faults
def test_forgetting_goes_on_where_it_was_killed(world: World) -> None:
    """Between any two steps; a run goes on meanwhile, and takes new records."""
    world.changes = {"schema": COLUMNS}
    world.produce(*customers(20))
    world.run()

    def dying(step: int) -> Callable[[str], None]:
        steps = iter(range(100))

        def say(_: str) -> None:
            if next(steps) == step:
                raise KilledError

        return say

    for step in range(4):
        with pytest.raises(KilledError):
            forget(world, say=dying(step))
        world.produce(*(json.dumps({"id": n, "mail": "b@example.com", "amount": n}).encode() for n in range(3)))
        world.run()
        assert world.ingestion().audit().missing == 0
    certificate = forget(world, now=True)
    assert (certificate.records, certificate.failure) == (5, None)
    report = world.ingestion().audit()
    assert (report.conserved, report.removed["forgotten"], report.table) == (True, 5, 17 + 12 - 3)
    assert not [row for row in world.rows() if row["mail"] == MAIL]


@pytest.mark.faults
def test_two_forget_at_once(world: World, tmp_path: Path) -> None:
    """Two processes, the same request and another one: both end well, and nothing is counted twice."""
    world.changes = {"schema": COLUMNS}
    world.produce(*customers(40))
    world.run()
    path = tmp_path / "p.yaml"
    path.write_text(json.dumps(world.values()))
    commands = [
        [
            str(Path(sys.executable).with_name("lakeingest")),
            "forget",
            str(path),
            "--where",
            where,
            "--why",
            why,
            "--search",
            MAIL,
        ]
        for where, why in ((WHERE, "request 1"), (WHERE, "request 2"), ("id = 7", "request 3"))
    ]
    running = [subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for each in commands]
    for each in running:
        out, err = each.communicate(timeout=300)
        assert each.returncode == 0, (out, err)
    report = world.ingestion().audit()
    assert (report.conserved, report.removed["forgotten"], report.table) == (True, 10, 37 - 8)


def test_keys_and_headers_are_searched(world: World) -> None:
    """A refused record that nobody can decode is known by a text in its key, or in a header."""
    world.changes = {"schema": COLUMNS}
    world.produce(
        Record(value=b"{", key=MAIL.encode()), Record(value=b"{", headers=(("of", MAIL.encode()),)), Record(value=b"{")
    )
    world.run()
    assert forget(world, search=(MAIL,)).pipelines[0].quarantine == 2
    assert [row["_offset"] for row in world.refused] == [2]
    assert world.ingestion().audit().conserved


@pytest.mark.faults
def test_forgotten_with_vectors_and_a_change_feed(world: World) -> None:
    """Files whose rows are only marked are written anew; what a change feed keeps of the rows goes with the VACUUM."""
    world.changes = {"schema": COLUMNS}
    world.produce(*customers(20))
    world.run()
    for name, n in (("enableChangeDataFeed", 5), ("enableDeletionVectors", 10)):
        world.sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ('delta.{name}' = 'true')")
        world.sql(f"DELETE FROM {{table}} WHERE id = {n}")
    assert [key for key in objects_with(world, MAIL, "") if "/_change_data/" in key]
    world.ingestion().audit(accept_deletes="a trial")
    certificate = forget(world, now=True)
    assert certificate.failure is None, certificate.hits
    assert not [key for key in objects_with(world, MAIL, "") if "/_delta_log/" not in key]
    report = world.ingestion().audit()
    assert (report.conserved, report.removed["deleted"], report.removed["forgotten"]) == (True, 2, 3)


@pytest.mark.slow
def test_a_bucket_that_keeps_versions(world: World) -> None:
    """The certificate is not complete as long as one is there; it counts them, and says whether they are locked."""
    bucket = world.name.replace("_", "-")
    s3 = s3_client(world.stack)
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    world.changes = {"schema": COLUMNS, "table": {"path": f"s3a://{bucket}/t"}}
    world.produce(*customers(10))
    world.run()
    certificate = forget(world, now=True, search=())
    main, quarantine = (table.object_versions for table in certificate.pipelines[0].tables)
    assert (main["versioning"], main["locked"], certificate.complete) == ("Enabled", True, False)
    assert (main["versions"] > 0, quarantine["versions"] > 0) == (True, True)
    assert f"its bucket keeps {main['versions']} older versions of objects, and Object Lock is on" in "\n".join(
        map(str, certificate.text)
    )
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket)
    old = [each for page in pages for each in page["Versions"] if not each["IsLatest"]]
    for each in old:
        s3.delete_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])
    again = forget(world, now=True, search=())
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket)
    left = [each["Key"] for page in pages for each in page["Versions"] if not each["IsLatest"]]
    assert not [table.kept_versions for table in again.pipelines[0].tables if table.kept_versions], left
    s3.close()


@pytest.mark.slow
def test_a_pipeline_without_a_table_is_named(world: World) -> None:
    """Among others it does not stop them, and what it will read is not reached; alone it is an error."""
    world.changes = {"schema": COLUMNS}
    world.produce(*customers(10))
    coming = World(world.stack, world.spark, f"{world.name}_coming", schema=COLUMNS)
    with pytest.raises(UsageError, match="there is no Delta table"):
        forget(world, coming)
    world.run()
    certificate = forget(world, coming, search=())
    assert [part.table for part in certificate.pipelines] == [1, 0]
    assert "has no table yet" in certificate.pipelines[1].beyond[0]
    assert world.ingestion().audit().conserved
