"""A marked value stands wherever a record can have one, and is masked: it is nowhere in what the pipeline leaves."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.oracle.leaks import Search
from support.pipelines import values_of
from support.pipelines.command_line import Command
from support.pipelines.schema_world import SchemaWorld
from support.records import Record, registered
from support.records.registered import header, maybe, record
from support.servers import spark_versions

from lakeingest import extend
from lakeingest.cli import report
from lakeingest.errors import NotComputed, StorageUnreachable
from lakeingest.ingest.events import Event
from lakeingest.ingest.listeners.endpoint import Endpoint
from lakeingest.local import Addresses
from lakeingest.pipeline import Pipeline

MARK = "hush-Zq7f0Kx2"
SALT, KEY = "no salt for nobody", "no key for anybody"
TELLING = """
from pyspark.sql import functions as F

class Telling:
    columns = "told INT"
    def compute(self, columns):
        refused = F.when(columns["id"] == 66, F.concat(F.lit("I do not like "), columns["mail"]))
        return {"told": columns["id"], "_refused": refused}

class Casting:
    columns = "told INT"
    def compute(self, columns):
        return {"told": columns["mail"].cast("INT")}

class Python:
    columns = "told INT"
    def compute(self, columns):
        return {"told": F.udf(lambda mail: int(mail), "INT")(columns["mail"])}

class Hearing:
    def heard(self, pipeline, event):
        with open("heard.log", "a") as file:
            file.write(repr(event))
"""
STEPS: list[dict[str, Any]] = [
    {"own": "telling:Telling"},
    {"derive": {"each": "CAST(10 / nullif(id, 77) AS DOUBLE)", "ratio": "CAST(1 / (id - 88) AS DOUBLE)"}},
    {"mask": {"mail": {"hash": SALT}, "who.name": {"constant": "-"}, "_key": {"hash": SALT}}},
    {"rename": {"reach": "contact"}},
    {"mask": {"contact": "null", "_headers.user": {"hash": SALT}, "who.home.street": "null"}},
    {"drop": ["gone", "_rescued.extra"]},
]
JSON_STEPS: list[dict[str, Any]] = [*STEPS, {"mask": {"tags": "null", "notes": "null"}}]
COLUMNS = (
    "id INT NOT NULL, age INT, mail STRING, reach STRING, gone STRING, tags ARRAY<STRING>, notes MAP<STRING, STRING>, "
    "who STRUCT<name: STRING, home: STRUCT<street: STRING, zip: INT>>, free STRING"
)
HEADERS = (("user", MARK.encode()), ("trace", b"t"))


def whole(id_: int, **more: Any) -> dict[str, Any]:
    """A record with the mark in all that the steps hide."""
    home = {"street": MARK, "zip": 1}
    return {"id": id_, "mail": MARK, "reach": MARK, "gone": MARK, "who": {"name": MARK, "home": home}, **more}


def sent(value: bytes | None) -> Record:
    return Record(value, MARK.encode(), headers=HEADERS)


def json_records(world: SchemaWorld) -> list[bytes | None]:
    more = {"tags": [MARK], "notes": {MARK: MARK}, "extra": MARK, "free": "f", "beside": {"is": "there"}}
    within = {"name": MARK, "more": "kept", "home": {"street": MARK, "zip": 1, "town": "t"}}
    made = [whole(1, **more), whole(2, **more, who=within), whole(101, **more, who=within)]
    made += [whole(3, age=MARK), whole(4, who=MARK), whole(5, tags=MARK), whole(66), whole(88), {"mail": MARK}]
    texts = [json.dumps(each) for each in made]
    texts.append(json.dumps(whole(9, **more))[:-1] + f', "mail": "{MARK}", "twice": {{"a": 1, "a": 2}}}}')
    return [text.encode() for text in texts] + [
        f'"{MARK}"'.encode(),
        f"{MARK} {{".encode(),
        MARK.encode() + b"\xff",
        None,
    ]


def avro_records(world: SchemaWorld) -> list[bytes | None]:
    home = record("Home", street="string", zip="int")
    one = record("o", **_fields(record("Who", name="string", home=home)))
    bigger = record("Home", street="string", zip="int", town="string")
    two = record(
        "o", **_fields(record("Who", name="string", home=bigger, more="string")), extra="string", beside="string"
    )
    first, second = world.avro(one), world.avro(two)
    more = {"extra": MARK, "beside": "there"}
    within = {"name": MARK, "more": "kept", "home": {"street": MARK, "zip": 1, "town": "t"}}
    base = {"free": "f", "age": None}
    made = [first(**whole(1), **base)]
    made += [second(**{**whole(n), **base, **more, "who": within}) for n in (2, 101, 66, 88)]
    return [*made, made[0][:-3], header(987654) + MARK.encode(), MARK.encode(), b"\0" + MARK.encode(), None]


def _fields(who: Any) -> dict[str, Any]:
    texts = dict.fromkeys(("mail", "reach", "gone", "free"), "string")
    return {"id": "int", "age": maybe("int"), "who": who, **texts}


def protobuf_records(world: SchemaWorld) -> list[bytes | None]:
    text = (
        'syntax = "proto3"; message O { int32 id = 1; int32 age = 2; string mail = 3; string reach = 4; '
        "string gone = 5; message Home { string street = 1; int32 zip = 2; %s } "
        "message Who { string name = 1; Home home = 2; %s } "
        "Who who = 6; string free = 7; %s }"
    )
    ids = [
        registered.register(world.stack, f"{world.name}-value", text % more, "PROTOBUF")
        for more in (("", "", ""), ("string town = 3;", "string more = 3;", "string extra = 8; string beside = 9;"))
    ]

    def field(number: int, value: bytes | str) -> bytes:
        data = value.encode() if isinstance(value, str) else value
        return bytes([number << 3 | 2, len(data)]) + data

    def message(id_: int) -> bytes:
        home = field(1, MARK) + b"\x10\x01" + field(3, "t")
        who = field(1, MARK) + field(2, home) + field(3, "kept")
        flat = b"".join(field(n, MARK) for n in (3, 4, 5))
        return b"\x08" + bytes([id_]) + flat + field(6, who) + field(7, "f") + field(8, MARK) + field(9, "there")

    made = [header(ids[0]) + b"\0\x08\x01" + field(3, MARK)]
    made += [header(ids[1]) + b"\0" + message(n) for n in (2, 101, 66, 88)]
    return [*made, made[1][:-3], header(987654) + MARK.encode(), MARK.encode(), None]


FORMATS: dict[str, tuple[Callable[[SchemaWorld], list[bytes | None]], str | None, list[dict[str, Any]]]] = {
    "json": (json_records, COLUMNS, JSON_STEPS),
    "avro": (avro_records, None, STEPS),
    "protobuf": (protobuf_records, None, STEPS),
}


@pytest.fixture
def world(
    stack: Addresses, spark: SparkSession, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SchemaWorld:
    """In a folder of its own, with a class of one's own that tells values."""
    (tmp_path / "telling.py").write_text(TELLING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("telling", None)
    extend.step.cache_clear()
    transport = {"type": "file", "log_file_path": str(tmp_path / "lineage"), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    return SchemaWorld(stack, spark, named)


def configured(world: SchemaWorld, format_: str, folder: Path) -> None:
    rules = [
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "id", "max_value": 100}},
        {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "mail", "regex": "^[0-9a-f]*$"}},
        {"type": "expect_column_unique_value_count_to_be_between", "kwargs": {"column": "mail", "max_value": 9}},
    ]
    (folder / "suite.json").write_text(json.dumps({"name": "s", "expectations": rules}))
    _, columns, steps = FORMATS[format_]
    world.changes = {
        "decode": {"value": {"format": format_}, "key": {"format": "string"}},
        "schema": {"columns": columns, "compatibility": "FORWARD"},
        "transform": steps,
        "quarantine": {"keep_bytes": "encrypted", "encryption_key": KEY},
        "gate": {"suite": str(folder / "suite.json")},
        "listeners": ["telling:Hearing"],
    }


@pytest.mark.slow
def test_no_statistics_of_a_key_in_the_clear(world: SchemaWorld) -> None:
    """The log had the least and the greatest key of each file; a table that is there has none from its next commit on,
    and goes on to have those of columns that come later.
    """
    world.changes = {"decode": {"key": {"format": "string"}}, "schema": {"columns": "id INT, mail STRING"}}
    world.produce(sent(b'{"id": 1}'))
    world.run()
    world.changes["transform"] = [{"mask": {"mail": "null"}}]
    world.changes["quarantine"] = {"keep_bytes": "never"}
    world.produce(sent(b'{"id": 2, "beside": "b"}'))
    world.run()
    world.changes["schema"] = {"columns": "id INT, mail STRING, more STRING"}
    for n in (3, 4):
        world.produce(sent(b'{"id": %d, "more": "m"}' % n))
        world.run()
    logged = world.spark.read.json(world.path("/_delta_log/*.json"))
    found = [json.loads(row[0])["minValues"] for row in logged.where("add IS NOT NULL").select("add.stats").collect()]
    by_id = {each["id"]: each for each in found}
    assert [by_id[n].get("_key") for n in (1, 2, 3, 4)] == [MARK, None, None, None]
    assert [sorted(by_id[n].keys() - {"_topic", "_partition", "_offset", "_timestamp"}) for n in (1, 2, 4)] == [
        ["_key", "id"],
        ["id"],
        ["id", "more"],
    ]


@pytest.mark.slow
def test_not_in_what_ends_a_run(world: SchemaWorld, tmp_path: Path, lakeingest: Command) -> None:
    """A class of one's own fails for a record: Spark says its value, and so did messages and lineage, which blamed the
    store; `plan` ended with a traceback.
    """
    search, file = Search(MARK), tmp_path / "p.yaml"
    world.produce(json.dumps({"id": 1, "mail": MARK}).encode())
    for name, code, said in (
        ("Casting", NotComputed.exit_code, "CAST_INVALID_INPUT; its value is not shown"),
        ("Python", StorageUnreachable.exit_code, "Python worker"),
    ):
        steps = [{"own": f"telling:{name}"}, {"mask": {"mail": "null"}}]
        world.changes = {
            "transform": steps,
            "schema": {"columns": "id INT, mail STRING"},
            "retry": {"wait": "1 second"},
        }
        world.changes |= {"quarantine": {"keep_bytes": "never"}, "listeners": ["telling:Hearing"]}
        file.write_text(json.dumps(world.values()))
        for words in (("plan",), ("run", "--until-caught-up", "--log-format", "json", "--output", "json")):
            ended = lakeingest(words[0], file, *words[1:], "--allow-code")
            search.look("command", f"{name} {words[0]}", ended.out + ended.err)
            assert ended.code == code, ended.err
            assert said in ended.err
    for place in ("lineage", "heard.log"):
        search.look("local file", place, (tmp_path / place).read_text())
    assert not search.found


@pytest.mark.slow
@pytest.mark.parametrize(
    "format_",
    [
        "json",
        pytest.param("avro", marks=pytest.mark.faults),
        pytest.param("protobuf", marks=[pytest.mark.faults, spark_versions.protobuf]),
    ],
)
def test_nowhere(world: SchemaWorld, format_: str, tmp_path: Path, lakeingest: Command) -> None:
    """It stood in _rescued, in _key, in headers, in quarantine's key and headers, in a class's own reason, and in the
    statistics of the log.
    """
    configured(world, format_, tmp_path)
    search, records = Search(MARK, SALT, KEY), FORMATS[format_][0](world)
    answering = Endpoint("127.0.0.1:0", [world.name], lambda: report.page_of([world.ingestion().config]))

    def heard(event: Event) -> None:
        search.look("event", type(event).__name__, repr(event))
        answering.heard(world.name, event)

    world.produce(*map(sent, records))
    counts = Pipeline(world.ingestion().config, allow_code=True).run(until_caught_up=True, on_event=heard)
    assert counts.consumed == len(records)
    world.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    world.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')", world.path("_quarantine"))
    (folder := tmp_path / "told").mkdir()
    failed = _run_all(world, format_, lakeingest, search, folder)
    for path in ("/metrics", "/", "/report"):
        with urllib.request.urlopen(answering.url + path, timeout=60) as answer:
            search.look("answer", path, answer.read())
    answering.close()
    search.objects(world.stack, world.name)
    for place in (folder, tmp_path / "lineage", tmp_path / "heard.log"):
        search.files(place) if place.is_dir() else search.look("local file", place.name, place.read_text())
    print(*(f"{count:5,}  {place}" for place, count in sorted(search.places.items())), sep="\n")
    assert not failed, [ended.err for _, ended in failed]
    assert not search.found
    assert len(search.places) > 20
    _left(world, format_)
    assert world.ingestion().audit().conserved


def _run_all(world: SchemaWorld, format_: str, lakeingest: Command, search: Search, folder: Path) -> list[Any]:
    """Every command that tells something, a second run, a replay, exports and a compaction; those that failed."""
    failed = []

    def run(*words: object) -> None:
        said = lakeingest(*words)
        search.look(f"command {words[0]}", str(words), said.out + said.err)
        if said.code:
            failed.append((words, said))

    (file := folder.parent / "p.yaml").write_text(json.dumps(world.values()))
    refused = next(row["_offset"] for row in world.refused if row["stage"] == "gate")
    place, code = f"{world.name}-0:{refused}", "--allow-code"
    world.produce(sent(FORMATS[format_][0](world)[0]))
    to = [f"s3a://lake/{world.name}_export_{kind}" for kind in ("jsonl", "csv", "avro", "parquet")]
    words: list[tuple[Any, ...]] = [
        ("plan", file, code, "--suggest-suite"),
        ("run", file, "--until-caught-up", code, "--log-format", "json"),
        ("status", file),
        ("audit", file),
        ("quarantine", "list", file),
        ("quarantine", "show", file, place),
        ("quarantine", "replay", file, "--reason", "to see", "--dry-run", code),
        ("gate", "history", file),
        ("schema", "history", file),
        ("contract", file),
        ("check", file),
        ("sql", file, f"SELECT * FROM {world.name}"),
        ("maintain", file, code),
        *(("export", file, "--to", path, "--format", path.rpartition("_")[2], code) for path in to),
    ]
    for each in words:
        # What starts Spark says the same in both; once is enough in each `make test`.
        for output in ([], ["--output", "json"]) if format_ != "json" or code not in each else (["--output", "json"],):
            run(*each, *output)
    for each in (("read", file), ("read", file, "--limit", 99), ("report", file, "--to", folder / "report.html")):
        run(*each)
    suite = json.loads((folder.parent / "suite.json").read_text())
    suite["expectations"][0]["kwargs"]["max_value"] = 1000
    (folder.parent / "suite.json").write_text(json.dumps(suite))
    run("quarantine", "replay", file, "--reason", "to see", code)
    return failed


def _left(world: SchemaWorld, format_: str) -> None:
    """What is not hidden is there: fields that no column takes, and why records were refused."""
    rescued = {row["id"]: json.loads(row["_rescued"] or "null") for row in world.rows()}
    within = {"more": "kept", "home": {"zip": 1, "town": "t"}}
    if format_ == "json":
        assert rescued[2] == rescued[101] == {"beside": {"is": "there"}, "who": within}
    else:
        assert rescued[2] == rescued[101] == {"beside": "there", "who": within}
    assert {row["who"]["name"] for row in world.rows() if row["who"]} == {"-"}
    assert len({row["mail"] for row in world.rows()} | {row["_key"] for row in world.rows()}) == 1
    assert {row["bytes"] for row in world.refused} == {"encrypted: value, key, headers"}
    said = {row["message"] for row in world.refused}
    assert any(text.startswith("id is 101: ") for text in said)
    assert "transform[1].derive.ratio cannot be computed of id" in said
    if format_ == "protobuf":
        assert any(text.endswith(": field beside is cut short, or written with another schema") for text in said)
    if format_ == "json":
        assert {"age is no INT", "who is no STRUCT", "tags is no ARRAY", "id is required, and missing"} <= said


@pytest.mark.faults
@pytest.mark.parametrize("mode", ["FORWARD", "NONE"])
def test_nowhere_behind_bronze(world: SchemaWorld, mode: str, tmp_path: Path, lakeingest: Command) -> None:
    """Nor in what a bronze table, which has the records as they came, fills: by a run, a rebuild, a backfill, or in a
    table that was adopted.
    """
    world.changes = {"decode": {"value": {"format": "bytes"}, "key": {"format": "bytes"}}, "schema": {"columns": None}}
    world.produce(*map(sent, json_records(world)))
    world.run()
    bronze, search = world.path(), Search(MARK, SALT, KEY)
    configured(world, "json", tmp_path)
    # A field that becomes a column is hidden by its name, and not by that in _rescued: see `config.hiding`.
    columns, extra = (COLUMNS, "_rescued.extra") if mode == "FORWARD" else (f"{COLUMNS}, extra STRING", "extra")
    steps = [*JSON_STEPS[:-2], {"drop": ["gone", extra]}, JSON_STEPS[-1]]
    made = {**world.changes, "listeners": [], "schema": {"columns": columns, "compatibility": mode}, "transform": steps}

    def written(name: str, **more: Any) -> Path:
        values = {**values_of(world.stack, f"{world.name}_{name}", **made), **more}
        (at := tmp_path / f"{name}.json").write_text(json.dumps(values))
        return at

    def run(*words: object) -> None:
        said = lakeingest(*words)
        search.look(f"command {words[0]}", str(words), said.out + said.err)
        assert said.code == 0, said.out + said.err

    topic = {"topics": [world.name], "bootstrap_servers": world.stack.kafka}
    kafka, late = written("old", source=topic), written("late", source={**topic, "start": "latest"})
    silver = written("silver", source={"table": bronze})
    run("run", silver, "--until-caught-up", "--allow-code", "--output", "json")
    run("rebuild", kafka, "--from", bronze, "--to", f"s3a://lake/{world.name}_made", "--allow-code")
    run("run", late, "--until-caught-up", "--allow-code")
    world.produce(*map(sent, json_records(world)))
    run("run", late, "--until-caught-up", "--allow-code")
    run("backfill", late, "--from", "earliest", "--allow-code")
    for file in (silver, late):
        for word in ("status", "audit", "read", "schema"):
            run(word, *(["history"] if word == "schema" else []), file)
    for name in ("silver", "made", "late"):
        search.objects(world.stack, f"{world.name}_{name}")
    print(*(f"{count:5,}  {place}" for place, count in sorted(search.places.items())), sep="\n")
    assert not search.found
    rows = world.spark.read.format("delta").load(f"s3a://lake/{world.name}_late")
    assert rows.where("mail IS NOT NULL").count() > 1
