"""The table's entry in Glue: it follows the table, and whatever becomes of Glue, records do not suffer.

Glue is moto, and MiniStack where two write at once: moto takes a change of any version.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from support.pipelines import Crash, World, only
from support.pipelines.command_line import Command
from support.pipelines.schema_world import SchemaWorld
from support.records import clean_records, mixed_records
from support.records.registered import Proxy
from support.servers import glue

from lakeingest.config import Storage
from lakeingest.delta.catalog.glue import GlueCatalog
from lakeingest.errors import CatalogUnreachable, LakeingestError, TableMismatch
from lakeingest.ingest.events import CatalogUpdate, Committed
from lakeingest.local import Addresses
from lakeingest.spark.types import struct

DATABASE = "tests"
Entry = dict[str, Any]


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with glue.moto(tmp_path_factory.mktemp("moto")) as url:
        yield url


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let boto3 find Glue at a URL."""
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in glue.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return lambda url: monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", url)


@pytest.fixture
def server(moto: str, reached: Callable[[str], None]) -> Iterator[Any]:
    """A client of the moto that pipelines find."""
    reached(moto)
    with closing(glue.client(moto)) as client:
        yield client


@pytest.fixture
def world(stack: Addresses, spark: SparkSession, named: str) -> World:
    table = {"path": f"s3a://lake/{named}", "name": f"{DATABASE}.{named}", "catalog": "glue"}
    return World(stack, spark, named, table=table)


def run(world: World, on_progress: Callable[[Committed], None] = lambda _: None, **changes: Any) -> list[CatalogUpdate]:
    """Run until caught up; what is told of the catalog."""
    told: list[CatalogUpdate] = []
    world.ingestion(**changes).run(
        until_caught_up=True, on_event=only(CatalogUpdate, told.append), on_progress=on_progress
    )
    return told


def held(server: Any, world: World) -> Entry:
    found: Entry = server.get_table(DatabaseName=DATABASE, Name=world.name)["Table"]
    return found


def columns(entry: Entry) -> list[tuple[str, str, str | None]]:
    return [(c["Name"], c["Type"], c.get("Comment")) for c in entry["StorageDescriptor"]["Columns"]]


def described(world: World) -> list[tuple[str, str, str | None]]:
    """The same, as Spark says it of the Delta table; of partitions it repeats the columns."""
    rows = [tuple(row) for row in world.spark.sql(f"DESCRIBE TABLE delta.`{world.path()}`").collect()]
    own = takewhile(lambda row: row[0] and not row[0].startswith("#"), rows)
    return [(name.lower(), kind, comment) for name, kind, comment in own]


@pytest.mark.slow
def test_the_entry_follows_the_table(world: World, server: Any) -> None:
    """It is made with the database, changes with the columns and their comments, and else is left alone."""
    by_text = [{"by": "field", "field": "text"}]
    declared = {"columns": "n INT NOT NULL COMMENT 'how many', text STRING"}
    world.changes |= {
        "partition": by_text,
        "schema": declared,
        "table": {**world.changes["table"], "comment": "it's one"},
    }
    world.produce(*mixed_records(10))
    assert run(world) == [CatalogUpdate(f"{DATABASE}.{world.name}")]
    first = held(server, world)
    assert columns(first) == described(world)
    assert ("n", "int", "how many") in columns(first)
    assert (first["Description"], first.get("PartitionKeys", [])) == ("it's one", [])
    assert first["StorageDescriptor"]["Location"] == f"s3://lake/{world.name}"
    # A file that changes nothing, and a batch that changes no column.
    world.produce(*mixed_records(10))
    assert run(world) == []
    assert held(server, world)["VersionId"] == first["VersionId"]
    # Wider, more, a comment in it, and one that is another.
    wider = (
        "n BIGINT COMMENT 'how very many', text STRING, s STRUCT<a: ARRAY<STRUCT<b: INT COMMENT 'deep'>>> COMMENT 'new'"
    )
    world.changes["schema"] = {"columns": wider}
    assert run(world)
    assert columns(held(server, world)) == described(world)
    assert {("n", "bigint", "how very many"), ("s", "struct<a:array<struct<b:int>>>", "new")} < set(described(world))
    world.checked()


def test_comments_are_no_schema(world: World, server: Any) -> None:
    """A comment that changes makes no version of the schema; one that the file has not is not touched."""
    world.produce(*clean_records(3))
    run(world)
    steps = len(world.ingestion().schemas().steps)
    world.sql("ALTER TABLE {table} ALTER COLUMN text COMMENT 'by hand'")
    for comment in ("one", "two ${env:HOME}"):
        # In a file a plain $ is written twice.
        said = comment.replace("$", "$$")
        world.changes["schema"] = {"columns": f"n INT NOT NULL COMMENT '{said}', text STRING"}
        assert run(world) == [CatalogUpdate(f"{DATABASE}.{world.name}")]
        assert {("n", "int", comment), ("text", "string", "by hand")} < set(columns(held(server, world)))
    version = world.commit_log().version
    assert run(world) == []
    assert world.commit_log().version == version
    assert len(world.ingestion().schemas().steps) == steps


@pytest.mark.faults
def test_the_documentation_of_avro(stack: Addresses, spark: SparkSession, named: str, server: Any) -> None:
    """The doc of a field becomes its column's comment, in a table that is made, that grows, and that stays as it is."""

    def tree(*fields: tuple[str, str | None]) -> Entry:
        listed = [{"name": n, "type": "int", "default": 0, **({"doc": doc} if doc else {})} for n, doc in fields]
        return {"type": "record", "name": "r", "fields": listed}

    table = {"path": f"s3a://lake/{named}", "name": f"{DATABASE}.{named}", "catalog": "glue"}
    world = SchemaWorld(stack, spark, named, table=table, decode={"value": {"format": "avro"}})
    found = []
    for fields in ([("a", "first")], [("a", "first"), ("b", "second")], [("a", "other"), ("b", None)]):
        world.produce(world.avro(tree(*fields))(**{name: 1 for name, _ in fields}))
        run(world)
        assert columns(held(server, world)) == described(world)
        found.append({name: comment for name, _, comment in described(world) if not name.startswith("_")})
    assert found == [{"a": "first"}, {"a": "first", "b": "second"}, {"a": "other", "b": "second"}]
    assert [entry.changes for entry in world.ledger.entries][2:] == [("~ a documentation", "~ b documentation")]
    world.checked()


@pytest.mark.faults
def test_killed_between_commit_and_catalog(world: World, server: Any) -> None:
    """The next run brings the entry up to date, without any record."""

    update = GlueCatalog.update

    def crash(catalog: GlueCatalog, columns: T.StructType, comment: str | None) -> bool:
        if "more" in columns.names:
            raise Crash
        return update(catalog, columns, comment)

    world.produce(*clean_records(3))
    run(world)
    world.changes["schema"] = {"columns": "n INT NOT NULL, text STRING, more INT COMMENT 'x'"}
    world.produce(*clean_records(3))
    with pytest.MonkeyPatch.context() as dying:
        dying.setattr(GlueCatalog, "update", crash)
        with pytest.raises(Crash):
            run(world)
    assert columns(held(server, world)) != described(world)
    assert run(world) == [CatalogUpdate(f"{DATABASE}.{world.name}")]
    assert columns(held(server, world)) == described(world)
    world.checked()


@pytest.mark.faults
def test_glue_is_down_while_a_run_goes(world: World, moto: str, server: Any, reached: Callable[[str], None]) -> None:
    """It is told once, and every record is written; a batch behind the first one finds Glue again."""
    world.produce(*mixed_records(8))
    line = Proxy(moto)
    line.down()
    reached(line.url)

    def back(progress: Committed) -> None:
        if progress.sequence == 3:
            line.up()

    told = run(world, back, trigger={"max_records": 2})
    line.down()
    assert [type(update.failure) for update in told] == [CatalogUnreachable, type(None)]
    assert "Glue cannot be asked for tests." in str(told[0].failure)
    assert columns(held(server, world)) == described(world)
    world.checked()


def test_a_run_on_the_command_line(
    world: World, server: Any, reached: Callable[[str], None], lakeingest: Command, tmp_path: Path
) -> None:
    """That the catalog is behind is the last line, with its cure, and in the JSON; it is no error."""
    world.produce(*clean_records(3))
    (tmp_path / "p.yaml").write_text(json.dumps(world.values()))
    reached(f"http://127.0.0.1:{glue.free_port()}")
    said = lakeingest("run", tmp_path / "p.yaml", "--until-caught-up", "--log-format", "none")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith(f"{world.name}: the catalog is behind: Glue cannot be asked for tests.{world.name}: ")
    assert lines[-1].strip().startswith("cure: look at AWS_REGION")
    again = lakeingest("run", tmp_path / "p.yaml", "--until-caught-up", "--output", "json")
    (failure,) = again.data["catalog_behind"].values()
    assert (again.code, [*again.data["catalog_behind"]], failure[:15]) == (
        0,
        [f"{DATABASE}.{world.name}"],
        "Glue cannot be ",
    )


@pytest.mark.parametrize("endpoint", ["nonsense", "the store"])
def test_what_is_no_glue(stack: Addresses, reached: Callable[[str], None], endpoint: str) -> None:
    """An endpoint that is no URL, or another server's, is no end of a run."""
    reached(stack.s3 if endpoint == "the store" else endpoint)
    with pytest.raises(CatalogUnreachable):
        GlueCatalog("a.b", "s3a://b/t", Storage()).update(struct("a INT"), None)


HOSTILE: dict[str, Entry] = {
    "elsewhere": {"StorageDescriptor": {"Location": "s3://lake/elsewhere"}, "Parameters": {"table_type": "DELTA"}},
    "view": {"TableType": "VIRTUAL_VIEW", "Parameters": {"spark.sql.sources.provider": "delta"}},
}


@pytest.mark.parametrize("kind", ["elsewhere", pytest.param("view", marks=pytest.mark.faults)])
def test_an_entry_that_is_not_ours_is_left_alone(
    world: World, server: Any, kind: str, lakeingest: Command, tmp_path: Path
) -> None:
    """It is told by the run, which goes on, and by the doctor."""
    with suppress(server.exceptions.AlreadyExistsException):
        server.create_database(DatabaseInput={"Name": DATABASE})
    server.create_table(DatabaseName=DATABASE, TableInput={"Name": world.name, **HOSTILE[kind]})
    before = held(server, world)
    world.produce(*clean_records(3))
    (told,) = run(world)
    assert isinstance(told.failure, TableMismatch)
    assert "never" not in told.failure.what
    assert held(server, world) == before
    world.checked()
    assert doctor(world, lakeingest, tmp_path)["state"] == "bad"


def doctor(world: World, lakeingest: Command, folder: Path) -> dict[str, str]:
    (folder / "p.yaml").write_text(json.dumps(world.values()))
    found = lakeingest("doctor", folder / "p.yaml", "--output", "json").data["findings"]
    return next(each for each in found if each["about"] == "catalog")


def test_the_doctor_looks_at_the_catalog(
    world: World, server: Any, reached: Callable[[str], None], lakeingest: Command, tmp_path: Path
) -> None:
    """Not there yet; there, and whether it is behind; not to be reached."""
    world.produce(*clean_records(3))
    name = f"{DATABASE}.{world.name}"
    assert doctor(world, lakeingest, tmp_path)["what"].startswith(f"{name} is not in Glue yet")
    run(world)
    assert doctor(world, lakeingest, tmp_path)["what"] == f"{name} is there, and may be changed"
    before = held(server, world)
    world.sql("ALTER TABLE {table} ADD COLUMNS (by_hand INT)")
    assert (
        doctor(world, lakeingest, tmp_path)["what"]
        == f"{name} is behind the table, until the next run, and may be changed"
    )
    assert columns(held(server, world)) == columns(before)
    reached(f"http://127.0.0.1:{glue.free_port()}")
    found = doctor(world, lakeingest, tmp_path)
    assert (found["state"], found["cure"][:20]) == ("bad", "look at AWS_REGION (")


def test_region_and_keys_of_the_file(moto: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where boto3 finds none by itself, those of storage are used."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", moto)
    with pytest.raises(CatalogUnreachable, match="specify a region"):
        GlueCatalog("file.t", "s3a://b/t", Storage()).update(struct("a INT"), None)
    with pytest.raises(CatalogUnreachable, match="locate credentials"):
        GlueCatalog("file.t", "s3a://b/t", Storage(region="eu-west-1")).update(struct("a INT"), None)
    given = Storage.model_validate({"region": "eu-west-1", "access_key": "a", "secret_key": "s"})
    assert GlueCatalog("file.t", "s3a://b/t", given).update(struct("a INT"), None)
    with closing(glue.client(moto)) as server:
        assert server.get_table(DatabaseName="file", Name="t")["Table"]["Name"] == "t"


def test_a_right_that_is_missing(
    tmp_path: Path, reached: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may read alone is told which rights are needed, by a run and by the doctor's look."""
    with glue.moto(tmp_path) as url:
        reached(url)
        catalog = GlueCatalog("lake.t", "s3a://b/t", Storage())
        assert catalog.update(struct("a INT"), None)
        with closing(boto3.client("iam", endpoint_url=url, region_name="eu-west-1")) as iam:
            iam.create_user(UserName="reader")
            allowed = {"Effect": "Allow", "Action": ["glue:GetTable", "glue:GetDatabase"], "Resource": "*"}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
            iam.put_user_policy(UserName="reader", PolicyName="p", PolicyDocument=policy)
            key = iam.create_access_key(UserName="reader")["AccessKey"]
        glue.enforce_rights(url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
        assert not catalog.update(struct("a INT"), None)
        for ask in (lambda: catalog.update(struct("a INT, b INT"), None), lambda: catalog.look(struct("a INT"))):
            with pytest.raises(CatalogUnreachable, match="UpdateTable") as denied:
                ask()
            assert "allow glue:GetDatabase, GetTable, CreateTable and UpdateTable" in denied.value.cure


# Two at once ---------------------------------------------------------------------------------------------------------


def test_nothing_of_others_is_lost(tmp_path: Path, reached: Callable[[str], None]) -> None:
    """Runs make the entry at once; then one changes its columns while others add parameters, under Glue's optimistic
    lock: each parameter is there at the end, and the columns are the newest.
    """
    with glue.ministack(tmp_path) as url, closing(glue.client(url)) as server:
        reached(url)
        catalog = GlueCatalog("lake.t", "s3a://b/t", Storage())
        made = together(*[lambda: catalog.update(struct("a INT"), "c")] * 4)
        assert sorted(made) == [False, False, False, True]

        def enriched(mine: str) -> bool:
            for number in range(15):
                assert any(added(server, f"{mine}{number}") for _ in range(100))
            return True

        def followed(wanted: T.StructType) -> bool:
            with suppress(CatalogUnreachable):
                return catalog.update(wanted, "c")
            return False

        def evolved() -> bool:
            wanted = T.StructType()
            for number in range(15):
                wanted.add(f"c{number}", T.IntegerType())
                assert any(followed(wanted) for _ in range(100))
            return True

        together(evolved, lambda: enriched("x"), lambda: enriched("y"))
        entry = server.get_table(DatabaseName="lake", Name="t")["Table"]
        assert len(columns(entry)) == 15
        assert {f"{mine}{number}" for mine in "xy" for number in range(15)} < set(entry["Parameters"])
        assert not catalog.update(T.StructType([T.StructField(f"c{n}", T.IntegerType()) for n in range(15)]), "c")


def added(server: Any, name: str) -> bool:
    """Whether a parameter was added, as anybody else does it."""
    entry = server.get_table(DatabaseName="lake", Name="t")["Table"]
    known = server.meta.service_model.shape_for("TableInput").members
    table = {key: value for key, value in entry.items() if key in known and value not in ("", None)}
    table["Parameters"] = {**table["Parameters"], name: "x"}
    try:
        server.update_table(DatabaseName="lake", TableInput=table, VersionId=entry["VersionId"], SkipArchive=True)
    except server.exceptions.ConcurrentModificationException:
        return False
    return True


def together(*calls: Callable[[], bool]) -> list[bool]:
    """What the calls give that begin at the same moment."""
    begin, found, failed = threading.Barrier(len(calls)), list[bool](), list[BaseException]()

    def call(each: Callable[[], bool]) -> None:
        begin.wait()
        try:
            found.append(each())
        except (LakeingestError, AssertionError) as failure:
            failed.append(failure)

    threads = [threading.Thread(target=call, args=(each,)) for each in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    return found
