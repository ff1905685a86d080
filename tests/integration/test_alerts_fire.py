"""The rehearsal of the alerts: a real Prometheus scrapes runs whose faults are real, until each alert fires.

The rules are those of infra/prometheus/alerts.yml, and who is told is as infra/prometheus/alertmanager.yml has it, with
seconds for their minutes. Behind the rehearsals each panel of Grafana's dashboard is asked for.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from ruamel.yaml import YAML
from support.faults import BUCKET
from support.pipelines import World, only
from support.pipelines.schema_world import SchemaWorld
from support.records import clean_records, mixed_records
from support.records.registered import record
from support.servers import free_port, glue, prometheus, serving

from lakeingest.errors import LakeingestError
from lakeingest.ingest.events import Committed, Event, Looked, Retrying
from lakeingest.ingest.listeners.endpoint import Endpoint
from lakeingest.local import Addresses
from lakeingest.testing.s3 import S3Proxy, denied

pytestmark = [pytest.mark.alerts, pytest.mark.pinned]
INFRA = Path(__file__).resolve().parents[2] / "infra"
GENERATOR = runpy.run_path(str(INFRA / "generate.py"))
ALERTS, JOB, LIMITS = (GENERATOR[name] for name in ("ALERTS", "JOB", "LIMITS"))
QUICK = {
    "window": "30s",
    "down": "2s",
    "restarts": "1",
    "restart_window": "2m",
    "retry": "2s",
    "lag": "2",
    "lag_wait": "2s",
    "stuck": "3",
    "refused": "0.05",
    "catalog": "2s",
}
HELD = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 10}}
FIRED = set[str]()
"""What has fired in this session."""
_SERVE = """
import sys, time
from lakeingest.ingest.listeners.endpoint import Endpoint
Endpoint(sys.argv[1])
time.sleep(300)
"""


class Watchtower:
    """A Prometheus, and the endpoint that it scrapes.

    Attributes:
        spare: a port that it scrapes too, and nobody listens on.
        messages: what Alertmanager has sent, as its webhook has it.
    """

    def __init__(self, endpoint: Endpoint, spare: int, url: str, messages: list[dict[str, Any]]) -> None:
        self.endpoint, self.spare, self._url, self.messages = endpoint, spare, url, messages
        self._begun = time.time()

    def _asked(self, path: str, **named: object) -> Any:
        with urllib.request.urlopen(f"{self._url}{path}?{urllib.parse.urlencode(named)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def firing(self) -> set[tuple[str, str | None]]:
        """Alert and pipeline."""
        alerts = self._asked("/api/v1/alerts")["alerts"]
        return {(a["labels"]["alertname"], a["labels"].get("pipeline")) for a in alerts if a["state"] == "firing"}

    def fires(self, alert: str, pipeline: str | None = None, within_s: float = 30) -> None:
        """Wait until it does."""
        deadline = time.monotonic() + within_s
        while (alert, pipeline) not in (firing := self.firing()):
            assert time.monotonic() < deadline, f"{alert} does not fire for {pipeline}, but {firing}"
            time.sleep(0.5)
        FIRED.add(alert)

    def told(self, alert: str, pipeline: str | None, status: str = "firing", within_s: float = 30) -> dict[str, Any]:
        """Wait until the receiver has got an alert: it, and the message that it stands in."""
        deadline = time.monotonic() + within_s
        while True:
            for message in list(self.messages):
                for each in message["alerts"]:
                    labels = each["labels"]
                    found = (labels["alertname"], labels.get("pipeline"), each["status"])
                    if found == (alert, pipeline, status):
                        return {**each, "message": message}
            assert time.monotonic() < deadline, f"nobody is told of {alert} for {pipeline}, but {self.messages}"
            time.sleep(0.2)

    def drawn(self, expr: str) -> list[float]:
        """All values of a panel since the beginning, of all pipelines."""
        query = expr.replace("$pipeline", ".*").replace("$__rate_interval", "5s")
        asked = {"query": query, "start": self._begun, "end": time.time(), "step": "1s"}
        series = self._asked("/api/v1/query_range", **asked)["result"]
        return [float(value) for each in series for _, value in each["values"] if value != "NaN"]

    def choices(self, variable: str) -> list[str]:
        """What a variable of the dashboard can be: label_values(metric, label)."""
        metric, label = variable.removeprefix("label_values(").rstrip(")").split(", ")
        found: list[str] = self._asked(f"/api/v1/label/{label}/values", **{"match[]": metric})
        return found


@contextmanager
def receiving() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook: its address, and what it has got."""
    messages: list[dict[str, Any]] = []

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Webhook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/alerts", messages
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def alertmanager(folder: Path, webhook: str) -> Iterator[int]:
    """An Alertmanager by the example of infra, at a port, with seconds for its minutes."""
    config = YAML(typ="safe").load(INFRA / "prometheus" / "alertmanager.yml")
    config["receivers"][0]["webhook_configs"][0]["url"] = webhook
    config["route"] |= {"group_wait": "1s", "group_interval": "1s"}
    # JSON is YAML too.
    (folder / "alertmanager.yml").write_text(json.dumps(config))
    port = free_port()
    command = [
        *prometheus.alertmanager(),
        "--config.file=alertmanager.yml",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--storage.path=alertmanager",
    ]
    with serving(command, port, folder / "alertmanager.log"):
        yield port


@pytest.fixture(scope="module")
def tower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watchtower]:
    folder = tmp_path_factory.mktemp("prometheus")
    spare, port = free_port(), free_port()
    endpoint = Endpoint("127.0.0.1:0")
    (folder / "alerts.yml").write_text(GENERATOR["rules"](QUICK))
    targets = [endpoint.url.removeprefix("http://"), f"127.0.0.1:{spare}"]
    config: dict[str, Any] = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [{"job_name": JOB, "static_configs": [{"targets": targets}]}],
    }
    command = [
        prometheus.folder() / "prometheus",
        "--config.file=prometheus.yml",
        f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.path=data",
    ]
    try:
        with receiving() as (webhook, messages), alertmanager(folder, webhook) as manager:
            told = [{"targets": [f"127.0.0.1:{manager}"]}]
            config["alerting"] = {"alertmanagers": [{"static_configs": told}]}
            (folder / "prometheus.yml").write_text(json.dumps(config))
            with serving(command, port, folder / "log"):
                yield Watchtower(endpoint, spare, f"http://127.0.0.1:{port}", messages)
    finally:
        endpoint.close()


def run(tower: Watchtower, world: World, then: Callable[[Event], object] = lambda _: None) -> None:
    """Run until caught up, or failed; what it tells is scraped."""

    def heard(event: Event) -> None:
        tower.endpoint.heard(world.name, event)
        then(event)

    with suppress(LakeingestError):
        world.ingestion().run(until_caught_up=True, on_event=heard)


def scraped_each(seconds: float) -> Callable[[Event], None]:
    """Leave Prometheus the time to see each commit."""
    return only(Committed, lambda _: time.sleep(seconds))


def test_the_limits_are_those_of_the_rules() -> None:
    assert QUICK.keys() == LIMITS.keys()


def test_many_are_refused(tower: Watchtower, world: World) -> None:
    world.produce(*(each for value in mixed_records(16, every=2) for each in (value, None)))
    world.changes = {"trigger": {"max_records": 8}, "decode": {"on_null": "ignore"}}
    run(tower, world, scraped_each(1.2))
    tower.fires("LakeingestRefusing", world.name)


def test_the_gate_holds_a_batch(tower: Watchtower, world: World, tmp_path: Path) -> None:
    """Two alerts: that it is held, and which kind of thing broke; whoever is on call gets a message of the first."""
    world.produce(*clean_records(3))
    (tmp_path / "suite.json").write_text(json.dumps({"name": "s", "expectations": [HELD]}))
    world.changes = {"gate": {"suite": str(tmp_path / "suite.json")}}
    # Twice, so that what is counted rises.
    for _ in range(2):
        run(tower, world)
        time.sleep(1)
    tower.fires("LakeingestHeld", world.name)
    tower.fires("LakeingestExpectationBroken", world.name)
    told = tower.told("LakeingestHeld", world.name)
    assert told["labels"]["severity"] == "critical"
    assert told["annotations"] == {
        "summary": f"The gate holds a batch of {world.name}",
        "runbook": "lakeingest explain LakeingestHeld",
    }
    assert told["message"]["receiver"] == "on-call"
    assert told["message"]["groupLabels"] == {"pipeline": world.name}


def test_another_run_takes_over(tower: Watchtower, world: World) -> None:
    world.produce(*clean_records(8))
    world.changes = {"trigger": {"max_records": 4}}
    others = iter([world.run])
    run(tower, world, only(Committed, lambda _: next(others, int)()))
    tower.fires("LakeingestFenced", world.name)


def test_a_run_fails(tower: Watchtower, world: World) -> None:
    world.changes = {"source": {"topics": [f"{world.name}_not_there"]}}
    run(tower, world)
    tower.fires("LakeingestFailed", world.name)


def test_a_schema_is_refused(tower: Watchtower, stack: Addresses, spark: SparkSession, named: str) -> None:
    world = SchemaWorld(stack, spark, named, decode={"value": {"format": "avro"}})
    for kind, value in (("int", 1), ("boolean", True)):
        world.produce(world.avro(record("o", n=kind))(n=value))
        run(tower, world)
    tower.fires("LakeingestSchemaRefused", named)


def test_the_store_is_away(tower: Watchtower, world: World, s3: S3Proxy) -> None:
    """It fires while the run waits, and is quiet when the run has gone on, which is told too."""
    world.produce(*clean_records(8))
    world.changes = {
        "table": {"path": f"s3a://{BUCKET}/{world.name}"},
        "storage": {"endpoint": s3.endpoint},
        "trigger": {"max_records": 4},
        "retry": {"wait": "2 minutes"},
    }
    spoilt = iter([1])

    def then(event: Event) -> None:
        if isinstance(event, Committed) and next(spoilt, 0):
            s3.fault(lambda request: request.kind == "PUT" and "_delta_log" in request.key, denied())
        if isinstance(event, Retrying) and event.pause_s >= 1:
            tower.fires("LakeingestRetrying", world.name)
            s3.clear()

    run(tower, world, then)
    deadline = time.monotonic() + 10
    while ("LakeingestRetrying", world.name) in tower.firing():
        assert time.monotonic() < deadline
        time.sleep(0.5)
    told = tower.told("LakeingestRetrying", world.name, "resolved")
    assert told["startsAt"] < told["endsAt"]
    world.checked()


def test_records_wait_too_long(tower: Watchtower, world: World) -> None:
    world.produce(*clean_records(4))
    world.changes = {"trigger": {"max_records": 1}}
    time.sleep(2)
    told = iter([1])

    def then(event: Event) -> None:
        if isinstance(event, Committed) and event.lag and next(told, 0):
            tower.fires("LakeingestLagging", world.name)

    run(tower, world, then)


def test_a_run_hangs(tower: Watchtower, world: World) -> None:
    """A listener that does not come back, say."""
    world.produce(*clean_records(1))
    world.changes = {"trigger": {"every": "1 second"}}
    told = iter([1])

    def hangs(_: Looked) -> None:
        if next(told, 0):
            tower.fires("LakeingestStuck", world.name)

    run(tower, world, only(Looked, hangs))


def test_the_catalog_is_away(tower: Watchtower, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in glue.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", f"http://127.0.0.1:{free_port()}")
    world.produce(*clean_records(1))
    world.changes = {"table": {"path": world.path(), "name": f"tests.{world.name}", "catalog": "glue"}}
    run(tower, world)
    tower.fires("LakeingestCatalogBehind", world.name)


def test_a_process_comes_and_goes(tower: Watchtower) -> None:
    """Started three times, then no more."""
    for _ in range(3):
        command: list[Any] = [sys.executable, "-c", _SERVE, f"127.0.0.1:{tower.spare}"]
        with subprocess.Popen(command) as process:
            time.sleep(4)
            process.kill()
    tower.fires("LakeingestRestarting")
    tower.told("LakeingestRestarting", None)
    tower.fires("LakeingestDown")


def test_each_alert_has_fired() -> None:
    """None is left out of the rehearsal."""
    assert {alert.name for alert in ALERTS} == FIRED


def test_each_alert_is_told(tower: Watchtower) -> None:
    """A message has the alerts of one pipeline, or of the processes; what follows from another alert is kept back."""
    told = {each["labels"]["alertname"] for message in tower.messages for each in message["alerts"]}
    assert {alert.name for alert in ALERTS} - told == {"LakeingestExpectationBroken"}
    for message in tower.messages:
        (pipeline,) = {each["labels"].get("pipeline", "") for each in message["alerts"]}
        assert message["groupLabels"].get("pipeline", "") == pipeline


BOARD = json.loads((INFRA / "grafana" / "lakeingest.json").read_text())


@pytest.mark.parametrize("expr", [panel["targets"][0]["expr"] for panel in BOARD["panels"]])
def test_each_panel_has_data(tower: Watchtower, expr: str) -> None:
    """Of the runs that were rehearsed, each draws something that is not 0.

    The store fails once, and a counter that begins with its first rise has no rate: the panel of `retrying` shows it.
    """
    drawn = tower.drawn(expr)
    assert drawn
    assert any(drawn) or "retries_total" in expr


def test_the_pipelines_can_be_chosen(tower: Watchtower) -> None:
    """By the variable of the dashboard."""
    (variable,) = (each for each in BOARD["templating"]["list"] if each["name"] == "pipeline")
    assert len(tower.choices(variable["query"]["query"])) >= 8
