"""A run's metrics for Prometheus; see `metric_list` for what they are."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector

from lakeingest.errors import BatchHeld
from lakeingest.ingest.events import CatalogUpdate, Committed, Ended, Event, Looked, Retrying, Started
from lakeingest.ingest.listeners.metric_list import METRICS

_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
_KINDS = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
_ACTIONS = ("write", "project", "evolve", "quarantine")


class Metrics:
    """A listener (see `extend.Listener`) that keeps the metrics of all pipelines of a process.

    Attributes:
        registry: what is scraped.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._all: dict[str, Any] = {}
        for each in METRICS:
            more = {"buckets": _BUCKETS} if each.kind == "histogram" else {}
            metric = _KINDS[each.kind](
                each.full_name, each.help, ("pipeline", *each.labels), registry=self.registry, **more
            )
            self._all[each.name] = metric
        self._waits: dict[str, _LagAge] = {}
        self._behind: dict[str, set[str]] = {}

    def heard(self, pipeline: str, event: Event) -> None:
        of = _Of(self._all, pipeline)
        match event:
            case Started():
                self._started(of, pipeline, event)
            case Looked():
                of("last_look_timestamp_seconds").set(event.at.timestamp())
                self._lag(of, pipeline, event.lag, event.at)
                of("sequence").set(event.sequence)
                of("retrying").set(0)
            case Committed():
                self._committed(of, pipeline, event)
            case Retrying():
                of("retries_total", type(event.failure).__name__).inc()
                of("retrying").set(1)
            case CatalogUpdate():
                # The table and its quarantine have an entry each.
                behind = self._behind.setdefault(pipeline, set())
                behind.add(event.name) if event.failure else behind.discard(event.name)
                of("catalog_behind").set(int(bool(behind)))
            case Ended():
                for name in ("running", "retrying"):
                    of(name).set(0)
                of("ended", event.outcome).set(1)
                if isinstance(event.failure, BatchHeld):
                    self._gate(of, event.failure.found)

    def _started(self, of: _Of, pipeline: str, event: Started) -> None:
        """What is not zero later is zero now, so that its first rise can be seen."""
        self._waits[pipeline] = waiting = _LagAge()
        of("lag_seconds").set_function(waiting.seconds)
        of("running").set(1)
        of("trigger_seconds").set(event.every_s)
        for name in ("records_consumed_total", "bytes_consumed_total", "rows_total", "commits_total", "retrying"):
            of(name)
        for name in ("files_written_total", "bytes_written_total", "catalog_behind"):
            of(name)
        for outcome in Ended.OUTCOMES:
            of("ended", outcome).set(0)
        for action in _ACTIONS:
            of("schema_changes_total", action)

    def _lag(self, of: _Of, pipeline: str, lag: int, at: datetime, newest: datetime | None = None) -> None:
        of("lag_records").set(lag)
        if waiting := self._waits.get(pipeline):
            waiting.note(lag, at, newest)

    def _committed(self, of: _Of, pipeline: str, event: Committed) -> None:
        written = event.written
        self._lag(of, pipeline, event.lag, event.at, event.newest)
        added = {
            "records_consumed_total": event.counts.consumed,
            "bytes_consumed_total": event.bytes,
            "rows_total": event.counts.accepted,
            "commits_total": 1,
            "files_written_total": written.files,
            "bytes_written_total": written.bytes,
        }
        for name, count in added.items():
            of(name).inc(count)
        for change, count in event.row_changes.items():
            of("row_changes_total", change).inc(count)
        for reason, count in event.refused.items():
            of("records_refused_total", reason).inc(count)
        for reason, count in event.dropped.items():
            of("records_dropped_total", reason).inc(count)
        of("batch_seconds").observe(event.seconds)
        of("commit_seconds").observe(written.commit_s)
        for stage, seconds in event.stages.items():
            of("stage_seconds", stage).observe(seconds)
        for each in event.schemas:
            of("schema_changes_total", each.action).inc()
        self._gate(of, event.gate)
        of("last_commit_timestamp_seconds").set(event.at.timestamp())
        of("sequence").set(event.sequence)
        of("table_version").set(event.version)

    def _gate(self, of: _Of, results: Any) -> None:
        for each in results:
            for outcome, is_met in (("met", True), ("broken", False)):
                of("gate_results_total", each.rule.name, outcome).inc(int(each.success is is_met))


class _Of:
    """The metrics of one pipeline by their names in the list."""

    def __init__(self, every: dict[str, Any], pipeline: str) -> None:
        self._every, self._pipeline = every, pipeline

    def __call__(self, name: str, *labels: str) -> Any:
        return self._every[name].labels(self._pipeline, *labels)


class _LagAge:
    """Since when the oldest record that is not committed can have waited, as far as the events tell."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._caught_up = 0.0

    def note(self, lag: int, at: datetime, newest: datetime | None) -> None:
        if not lag:
            # Whatever waits later was produced later.
            self._since, self._caught_up = None, at.timestamp()
        elif newest is not None:
            self._since = max(newest.timestamp(), self._caught_up)
        elif self._since is None:
            self._since = self._caught_up or at.timestamp()

    def seconds(self) -> float:
        return 0.0 if self._since is None else max(0.0, time.time() - self._since)
