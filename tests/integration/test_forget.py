"""A person is forgotten: out of every table and every object, and whatever reads Kafka again leaves the records out."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from support.pipelines import CHANGES, UPSERT, World
from support.pipelines.changes import encoded
from support.records import Record
from support.servers import s3_client

from lakeingest.delta.table import Table
from lakeingest.errors import UsageError
from lakeingest.operations.erasure import job
from lakeingest.operations.erasure.records import Request
from lakeingest.operations.results.erasure import Certificate

MAIL = "anna@example.com"
WHERE = f"mail = '{MAIL}'"
COLUMNS = {"columns": "id INT NOT NULL, mail STRING, amount INT"}
GATED = {"suite": "expectations/amounts.json"}


def customers(count: int, broken: int = 3) -> list[bytes]:
    """Every fifth is Anna's; the first of hers are refused for their amount, and one record is no JSON at all."""
    values = [
        {"id": n, "mail": MAIL if n % 5 == 0 else f"{n}@example.com", "amount": "much" if n < broken else n}
        for n in range(count)
    ]
    return [*(json.dumps(value).encode() for value in values), f'{{"id": 1, "mail": "{MAIL}"'.encode()]


def forget(*worlds: World, search: tuple[str, ...] = (MAIL,), where: str = WHERE, **options: Any) -> Certificate:
    request = Request(where, "request 123", search, options.pop("everything", False))
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


def test_keys_and_headers_are_searched(world: World) -> None:
    """A refused record that nobody can decode is known by a text in its key, or in a header."""
    world.changes = {"schema": COLUMNS}
    world.produce(
        Record(value=b"{", key=MAIL.encode()), Record(value=b"{", headers=[("of", MAIL.encode())]), Record(value=b"{")
    )
    world.run()
    assert forget(world, search=(MAIL,)).pipelines[0].quarantine == 2
    assert [row["_offset"] for row in world.refused] == [2]
    assert world.ingestion().audit().conserved
