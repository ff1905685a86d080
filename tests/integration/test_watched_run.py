"""A real run as others see it: what Prometheus scrapes by HTTP, what the log says, what OpenLineage is sent."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.pipelines import World
from support.records import DIRTY, clean_records, mixed_records

from lakeingest.cli import report
from lakeingest.config import file
from lakeingest.errors import BatchHeld
from lakeingest.ingest.events import Committed, Ended, Event
from lakeingest.ingest.listeners import endpoint as module
from lakeingest.ingest.listeners.endpoint import Endpoint
from lakeingest.ingest.listeners.metric_list import METRICS

HELD = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 10}}


@pytest.fixture
def endpoint(named: str, world: World) -> Iterator[Endpoint]:
    answering = Endpoint("127.0.0.1:0", [named], lambda: report.page_of([file.from_mapping(world.values())]))
    yield answering
    answering.close()


def get(endpoint: Endpoint, path: str) -> str:
    return str(urllib.request.urlopen(endpoint.url + path, timeout=60).read().decode())


def scraped(endpoint: Endpoint, pipeline: str) -> dict[str, Any]:
    """Name without prefix, and the other labels' values → value."""
    found: dict[str, Any] = {}
    for family in text_string_to_metric_families(get(endpoint, "/metrics")):
        for sample in family.samples:
            if sample.labels.get("pipeline") == pipeline:
                labels = sorted(value for name, value in sample.labels.items() if name != "pipeline")
                found[" ".join([sample.name.removeprefix("lakeingest_"), *labels])] = sample.value
    return found


def test_a_run_is_scraped(world: World, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are those of the tables; OpenLineage's file has the run's beginning and its end, with totals."""
    sent = tmp_path / "lineage"
    transport = {"type": "file", "log_file_path": str(sent), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    named, world.changes = world.name, {"trigger": {"max_records": 6}}
    world.produce(*mixed_records(10), None)
    told: list[Event] = []

    def heard(event: Event) -> None:
        told.append(event)
        endpoint.heard(named, event)

    counts = world.ingestion().run(until_caught_up=True, on_event=heard)
    assert [type(event).__name__ for event in told] == [
        *("Started", "Looked", "Committed", "Looked", "Committed", "Looked", "Ended")
    ]
    commits = [event for event in told if isinstance(event, Committed)]
    files = world.spark.sql(f"DESCRIBE DETAIL delta.`{world.path()}`").collect()[0]
    found = scraped(endpoint, named)
    wanted = {
        "records_consumed_total": counts.consumed,
        "rows_total": counts.accepted,
        "records_refused_total WRONG_TYPE": 2,
        "records_refused_total NULL_VALUE": 1,
        "commits_total": 2,
        "lag_records": 0,
        "lag_seconds": 0,
        "files_written_total": files["numFiles"],
        "bytes_written_total": files["sizeInBytes"],
        "batch_seconds_count": 2,
        "stage_seconds_count write": 2,
        "ended caught up": 1,
        "running": 0,
        "sequence": 2,
        "table_version": commits[-1].version,
    }
    assert {name: found[name] for name in wanted} == wanted
    assert found["bytes_consumed_total"] == sum(len(value) for value in mixed_records(10))
    for event in commits:
        assert 0 < sum(event.stages.values()) <= event.seconds
        assert 0 <= event.written.commit_s <= event.stages["write"]
        assert event.newest is not None
        assert abs((event.at - event.newest).total_seconds()) < 600
    assert {f"lakeingest_{m.name}" for m in METRICS} >= {
        name for name in scraped_names(endpoint) if name.startswith("lakeingest_")
    }
    assert (get(endpoint, "/healthz"), get(endpoint, "/readyz")) == ("ok\n", "ok\n")
    assert f'<th scope="row">{named}</th><td>caught up</td>' in get(endpoint, "/")
    assert '<a href="report">' in get(endpoint, "/")
    told = get(endpoint, "/report")
    # All of it without the Spark that runs; what was refused is counted, and not shown.
    assert ("Not known" in told) != world.asks_files
    assert (f"{counts.refused} refused in all" in told) == world.asks_files
    assert ("records refused" in told.lower()) == world.asks_files
    assert DIRTY.decode() not in told
    lineage = [json.loads(line) for line in sent.read_text().splitlines()]
    assert [event["eventType"] for event in lineage] == ["START", "RUNNING", "COMPLETE"]
    assert len({event["run"]["runId"] for event in lineage}) == 1
    end = lineage[-1]
    assert [each["name"] for each in end["inputs"]] == [named]
    table, quarantine = end["outputs"]
    assert (table["namespace"], table["name"]) == ("s3://lake", named)
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == counts.accepted
    assert {f["name"]: f["type"] for f in table["facets"]["schema"]["fields"]}["n"] == "int"
    assert quarantine["outputFacets"]["outputStatistics"]["rowCount"] == 3


def scraped_names(endpoint: Endpoint) -> set[str]:
    """As the list has them: a counter with _total."""
    families = text_string_to_metric_families(get(endpoint, "/metrics"))
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in families}


def test_a_held_batch_is_seen(world: World, endpoint: Endpoint, tmp_path: Path) -> None:
    """By its outcome, and by the expectation that it breaks, although nothing was committed."""
    (tmp_path / "suite.json").write_text(json.dumps({"name": "s", "expectations": [HELD]}))
    named, world.changes = world.name, {"gate": {"suite": str(tmp_path / "suite.json")}}
    world.produce(*clean_records(4))
    told: list[Event] = []

    def heard(event: Event) -> None:
        told.append(event)
        endpoint.heard(named, event)

    with pytest.raises(BatchHeld):
        world.ingestion().run(until_caught_up=True, on_event=heard)
    assert isinstance(told[-1], Ended)
    found = scraped(endpoint, named)
    assert (found["ended held"], found["ended failed"], found["commits_total"]) == (1, 0, 0)
    assert [value for name, value in found.items() if name.startswith("gate_results_total broken")] == [1]
    with pytest.raises(BatchHeld):
        world.run()
    standing = world.ingestion().status()
    held = standing.held
    assert held is not None
    assert (held["sequence"], held["waiting"], held["broken"]) == (1, 4, [told[-1].failure.broken[0]])
    assert held["since"] < held["last"]
    assert f"held since {held['since']}" in standing.headline
    assert world.ingestion().run(until_caught_up=True, accept_held="a test").accepted == 4
    assert world.ingestion().status().held is None


def test_a_client_that_does_not_read_is_left(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a traceback in the run's log; one that reads slowly gets all of a large page."""
    size = 20_000_000
    monkeypatch.setattr(module._Quiet, "timeout", 1.0)
    answering = Endpoint("127.0.0.1:0", [], lambda: "x" * size)
    host, port = answering.url.removeprefix("http://").split(":")
    try:
        with socket.create_connection((host, int(port))) as deaf:
            deaf.sendall(b"GET /report HTTP/1.0\r\n\r\n")
            time.sleep(2)
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(b"GET /report HTTP/1.0\r\n\r\n")
            got = 0
            while part := slow.recv(400_000):
                got += len(part)
                time.sleep(0.03)
    finally:
        answering.close()
    assert got > size
    assert capfd.readouterr().err == ""
