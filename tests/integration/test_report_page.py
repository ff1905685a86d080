"""The page of `lakeingest report` in a browser, over the tables of a real run, some of whose values are against it; and
the way to it from the status page of `run --listen`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.pipelines import World
from support.records import DIRTY, clean_records
from support.servers import browser

from lakeingest.cli import report
from lakeingest.ingest.listeners.endpoint import Endpoint
from lakeingest.local import Addresses
from lakeingest.operations.report import facts, page
from lakeingest.operations.report.facts import Facts
from lakeingest.pipeline import Pipeline

pytestmark = pytest.mark.classic
BAD = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
SIZES = (360, 768, 1440)
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def pipelines(stack: Addresses, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Pipeline]:
    """A pipeline that committed twice and refused some records of each batch, and one that never ran."""
    rule = {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "text", "value_set": ["text 1", BAD]},
        "meta": {"on_failure": "quarantine"},
    }
    suite = tmp_path_factory.mktemp("suite") / "suite.json"
    suite.write_text(json.dumps({"name": BAD, "expectations": [rule]}))
    gate, partition = {"suite": str(suite)}, [{"by": "field", "field": "text"}]
    world = World(stack, spark, "report_page", gate=gate, partition=partition)
    for start in (0, 10):
        values = [json.dumps({"n": n, "text": text}).encode() for n, text in enumerate((BAD, "text 1", "x"), start)]
        world.produce(*values, BAD.encode(), DIRTY)
        world.run()
    never = World(stack, spark, "report_page_never")
    never.produce(*clean_records(1))
    return [world.ingestion(), never.ingestion()]


@pytest.fixture(scope="module")
def told(pipelines: list[Pipeline]) -> list[Facts]:
    return facts.gather(pipelines, samples=3, audited=True)


@pytest.fixture(scope="module")
def written(told: list[Facts], tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("page") / "report.html"
    page.write(told, to)
    return to


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.chromium() as running:
        yield running


class Page:
    """The page in a window of its own, and what the browser says of it.

    Attributes:
        wrong: errors, remarks of the console, and requests to anything but the file, or its server.
    """

    def __init__(self, chromium: Any, url: str, width: int, scheme: str) -> None:
        self.wrong: list[str] = []
        self.context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.on("console", lambda said: self.wrong.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda asked: asked.url.startswith(url) or self.wrong.append(asked.url))
        self.page.goto(url)

    @classmethod
    def of_file(cls, chromium: Any, file: Path, width: int, scheme: str) -> Page:
        """A report with all of its charts."""
        seen = cls(chromium, file.as_uri(), width, scheme)
        seen.complete()
        return seen

    def complete(self) -> None:
        self.page.wait_for_selector("body[data-complete]", timeout=60_000)

    def evaluate(self, script: str) -> Any:
        return self.page.evaluate(script)

    def drawn(self) -> dict[str, int]:
        """Name of a chart of the first pipeline → marks that are seen in it."""
        return dict(
            self.evaluate(
                "[...document.querySelectorAll('#pipeline-0 figure, #pipeline-1 figure')].map((figure) => "
                "[figure.dataset.chart, figure.querySelectorAll('.chart:not([hidden]) svg .role-mark path').length])"
            )
        )

    def violations(self) -> list[str]:
        self.evaluate(browser.axe())
        found = self.evaluate("axe.run()")["violations"]
        return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def looked_at(chromium: Any, file: Path, width: int, scheme: str) -> Page:
    """A page with all that must hold at every size."""
    seen = Page.of_file(chromium, file, width, scheme)
    holds(seen, width)
    return seen


def holds(seen: Page, width: int) -> None:
    """Charts are drawn, nothing shuts somebody out, no value is more than text, and nothing is too wide."""
    marks = seen.drawn()
    assert set(marks) == {"records", "age", "refused", "gate", "sizes", "partitions"}
    assert all(marks.values()), marks
    assert seen.violations() == []
    assert seen.evaluate("window.hit") is None
    assert seen.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.wrong == []


@pytest.mark.slow
def test_the_page_holds_what_it_shows(told: list[Facts], written: Path, chromium: Any) -> None:
    """In a browser, dark: charts are drawn, filters filter, no network is asked, and axe-core is content."""
    ran, never = told
    assert (ran.verdict.label, never.verdict.label) == ("records refused", "never ran")
    assert ran.audit is not None
    assert ran.audit["conserved"]
    seen = looked_at(chromium, written, 1440, "dark")
    assert "10 records in 2 commits" in seen.page.inner_text("#shown")
    seen.page.select_option("#reason", "BROKEN_JSON")
    assert seen.evaluate("[...document.querySelectorAll('tr[data-reason]:not([hidden])')].length") == 1
    assert seen.drawn()["refused"] < sum(each["count"] for each in (ran.refused or {})["over_time"])
    seen.page.select_option("#pipeline", label=never.pipeline)
    assert seen.evaluate("document.querySelectorAll('section.pipeline:not([hidden])').length") == 1
    assert "0 records in 0 commits" in seen.page.inner_text("#shown")
    assert seen.wrong == []
    seen.context.close()


@pytest.mark.report
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
def test_every_size_and_scheme(written: Path, chromium: Any, width: int, scheme: str) -> None:
    """As a phone, a tablet and a desk show it."""
    looked_at(chromium, written, width, scheme).context.close()


@pytest.mark.report
def test_a_chart_says_in_a_tooltip_what_it_shows(written: Path, chromium: Any) -> None:
    """Values of records among it, which stay text."""
    seen = Page.of_file(chromium, written, 1440, "light")
    for mark in seen.page.query_selector_all("figure svg .role-mark path"):
        if mark.is_visible():
            mark.scroll_into_view_if_needed()
            mark.hover(force=True)
    assert seen.evaluate("window.hit") is None
    assert seen.wrong == []
    seen.context.close()


@pytest.mark.report
def test_a_period_without_commits_says_so(told: list[Facts], tmp_path: Path, chromium: Any) -> None:
    """And one with them draws again."""
    from dataclasses import replace
    from datetime import timedelta

    to = tmp_path / "later.html"
    page.write([replace(told[0], made=told[0].made + timedelta(days=2))], to)
    seen = Page.of_file(chromium, to, 768, "light")
    seen.page.select_option("#period", "86400")
    seen.page.wait_for_function("document.querySelector('figure[data-chart=records] .nothing').hidden === false")
    assert seen.evaluate("[...document.querySelectorAll('tr[data-at]:not([hidden])')].length") == 0
    seen.page.select_option("#period", "604800")
    seen.page.wait_for_function("document.querySelector('figure[data-chart=records] .nothing').hidden")
    assert seen.drawn()["records"] > 0
    assert seen.wrong == []
    seen.context.close()


@pytest.mark.report
def test_it_is_printed(written: Path, chromium: Any, tmp_path: Path) -> None:
    """With its charts, on paper; samples are unfolded."""
    seen = Page.of_file(chromium, written, 1440, "dark")
    seen.page.emulate_media(media="print")
    colour = seen.evaluate("getComputedStyle(document.body).backgroundColor")
    printed = seen.page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") >= 2
    assert colour == "rgb(255, 255, 255)"
    assert seen.evaluate("document.querySelector('details.printed').open")
    assert seen.wrong == []
    seen.context.close()


@pytest.mark.report
def test_without_scripts_the_tables_are_there(told: list[Facts], written: Path, chromium: Any) -> None:
    """Where a mail program, or a policy, runs none."""
    context = chromium.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(written.as_uri())
    text = opened.inner_text("body")
    assert told[0].verdict.sentence in text
    assert "BROKEN_JSON" in text
    assert "Charts and filters need JavaScript" in text
    context.close()


@pytest.mark.report
def test_the_keyboard_reaches_everything(written: Path, chromium: Any) -> None:
    """Filters, links, lists that unfold, and tables that are too wide."""
    seen = Page.of_file(chromium, written, 360, "light")
    reached = set()
    for _ in range(80):
        seen.page.keyboard.press("Tab")
        reached.add(seen.evaluate("document.activeElement.tagName + '.' + document.activeElement.className"))
    assert {"SELECT.", "A.", "SUMMARY.", "DIV.scroll"} <= reached
    seen.context.close()


@pytest.fixture(scope="module", params=[1, 2], ids=["one pipeline", "a fleet"])
def endpoint(request: pytest.FixtureRequest, pipelines: list[Pipeline]) -> Iterator[Endpoint]:
    """Of runs that find nothing new."""
    shown = pipelines[: request.param]
    configs = [each.config for each in shown]
    answering = Endpoint("127.0.0.1:0", [each.name for each in configs], lambda: report.page_of(configs))
    pipelines[0].run(until_caught_up=True, on_event=lambda event: answering.heard(configs[0].name, event))
    yield answering
    answering.close()


@pytest.mark.report
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
def test_the_status_page_leads_to_the_report(
    endpoint: Endpoint, chromium: Any, width: int, scheme: str, tmp_path: Path
) -> None:
    """Served as the run's endpoint serves it; back there is the status page, which goes on to follow the run."""
    seen = Page(chromium, f"{endpoint.url}/", width, scheme)
    assert "caught up" in seen.page.inner_text("table")
    assert seen.violations() == []
    assert seen.evaluate("document.documentElement.scrollWidth") <= width
    seen.page.screenshot(path=tmp_path / "status.png", full_page=True)
    seen.page.click("a[href=report]")
    seen.complete()
    holds(seen, width)
    seen.page.screenshot(path=tmp_path / "report.png", full_page=True)
    assert "Samples" not in seen.page.inner_text("main")
    assert "lakeingest audit" in seen.page.inner_text("main")
    seen.page.go_back()
    seen.page.wait_for_selector("#now")
    with seen.page.expect_response(f"{endpoint.url}/", timeout=10_000):
        pass
    assert seen.wrong == []
    seen.context.close()
