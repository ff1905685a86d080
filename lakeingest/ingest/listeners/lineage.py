"""A run as OpenLineage's events: topics in, tables out, with schema, statistics and what the gate found.

It is on where OpenLineage's own settings are there: its environment variables (OPENLINEAGE_URL, OPENLINEAGE_CONFIG, …)
or its file (openlineage.yml here, or in ~/.openlineage). Events are sent by a thread of their own: a server that does
not answer keeps no batch waiting.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeingest import version
from lakeingest.errors import LakeingestError
from lakeingest.ingest.events import Committed, Ended, Event, Started

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent

_FILE = "openlineage.yml"
_EVERY_S = 60.0
"""A run that goes tells how far it is so often, and at once of a schema and of an expectation that is not met."""
_MOST_WAITING = 100
_PATIENCE_S = 20.0
"""How long the end of a run waits for its events to be sent."""


def is_on() -> bool:
    """Whether OpenLineage's own settings are there."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    files = (Path(_FILE), Path("~/.openlineage", _FILE).expanduser())
    is_configured = any(os.environ.get(name) for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"))
    return is_configured or any(n.startswith("OPENLINEAGE__") for n in os.environ) or any(map(Path.is_file, files))


def listener() -> Lineage | None:
    """A listener for one run; None where OpenLineage is off, and where it cannot be, which is warned of."""
    if not is_on():
        return None
    try:
        import openlineage.client  # noqa: F401
    except ImportError:
        warnings.warn(
            "OpenLineage is configured, and openlineage-python is not installed: the run goes on without it; "
            "pip install 'lakeingest[lineage]'",
            stacklevel=2,
        )
        return None
    try:
        return Lineage()
    except Exception as failed:
        warnings.warn(f"OpenLineage's settings are wrong, the run goes on without it: {failed!r}", stacklevel=2)
    return None


@dataclass
class _Totals:
    """What a run has done until now."""

    inputs: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    size: int = 0
    files: int = 0
    refused: int = 0
    version: int | None = None
    columns: dict[str, str] = field(default_factory=dict)
    gate: dict[str, Any] = field(default_factory=dict)


class Lineage:
    """A listener (see `extend.Listener`) of one run."""

    def __init__(self) -> None:
        from openlineage.client import OpenLineageClient
        from openlineage.client.event_v2 import set_producer

        set_producer(f"urn:lakeingest:{version.installed()}")
        self._client = OpenLineageClient()
        self._waiting: queue.Queue[RunEvent | None] = queue.Queue(_MOST_WAITING)
        self._sends = threading.Thread(target=self._send, name="openlineage", daemon=True)
        self._sends.start()
        self._totals, self._last_event_s = _Totals(), 0.0

    def heard(self, pipeline: str, event: Event) -> None:
        from openlineage.client.event_v2 import RunState
        from openlineage.client.uuid import generate_new_uuid

        match event:
            case Started():
                self._started, self._id = event, str(generate_new_uuid())
                self._tell(pipeline, event, RunState.START)
            case Committed():
                self._add(event)
                notable = event.schemas or any(not each.success for each in event.gate)
                if notable or event.at.timestamp() - self._last_event_s >= _EVERY_S:
                    self._last_event_s = event.at.timestamp()
                    self._tell(pipeline, event, RunState.RUNNING)
            case Ended():
                self._tell(pipeline, event, RunState.FAIL if event.failure else RunState.COMPLETE, event.failure)
                self._close()

    def _add(self, event: Committed) -> None:
        totals, written = self._totals, event.written
        for each in event.ranges:
            totals.inputs[each.topic] += each.end - each.start
        totals.rows += written.rows
        totals.size += written.bytes
        totals.files += written.files
        totals.refused += event.counts.refused
        totals.version, totals.columns = event.version, dict(written.columns)
        totals.gate |= {each.rule.name: each for each in event.gate}

    def _tell(self, pipeline: str, event: Event, state: Any, failure: Exception | None = None) -> None:
        from openlineage.client.event_v2 import Job, Run, RunEvent
        from openlineage.client.facet_v2 import error_message_run, job_type_job, processing_engine_run

        engine = processing_engine_run.ProcessingEngineRunFacet(
            version=version.installed(), name="lakeingest", openlineageAdapterVersion=None
        )
        run: dict[str, Any] = {"processing_engine": engine}
        if failure is not None:
            message = failure.what if isinstance(failure, LakeingestError) else repr(failure)
            run["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                f"{type(failure).__name__}: {message}", "Python"
            )
        kind = job_type_job.JobTypeJobFacet(processingType="STREAMING", integration="LAKEINGEST", jobType="PIPELINE")
        namespace = os.environ.get("OPENLINEAGE_NAMESPACE", "default")
        run_event = RunEvent(
            eventTime=event.at.isoformat(timespec="milliseconds"),
            eventType=state,
            run=Run(runId=self._id, facets=run),
            job=Job(namespace=namespace, name=pipeline, facets={"jobType": kind}),
            inputs=list(self._inputs(namespace)),
            outputs=list(self._outputs(namespace)),
        )
        try:
            self._waiting.put_nowait(run_event)
        except queue.Full:
            _log().warning("OpenLineage: %d events wait to be sent; one was left out", _MOST_WAITING)

    def _inputs(self, namespace: str) -> Iterator[InputDataset]:
        from openlineage.client.event_v2 import InputDataset
        from openlineage.client.facet_v2 import data_quality_assertions_dataset as quality
        from openlineage.client.facet_v2 import input_statistics_input_dataset as statistics

        totals = self._totals
        broker = self._started.brokers.split(",")[0].strip()
        asserted = [
            quality.Assertion(
                assertion=each.rule.type, success=each.success, column=next(iter(each.rule.columns), None), name=name
            )
            for name, each in totals.gate.items()
        ]
        read = {(f"kafka://{broker}", topic): totals.inputs.get(topic) for topic in self._started.topics}
        if self._started.read_from:
            read = {dataset(self._started.read_from, namespace): totals.inputs.total() if totals.inputs else None}
        for (where, name), offsets in read.items():
            facets: dict[str, Any] = {}
            if offsets is not None:
                facets["inputStatistics"] = statistics.InputStatisticsInputDatasetFacet(rowCount=offsets)
            if asserted:
                facets["dataQualityAssertions"] = quality.DataQualityAssertionsDatasetFacet(assertions=asserted)
            yield InputDataset(namespace=where, name=name, inputFacets=facets)

    def _outputs(self, namespace: str) -> Iterator[OutputDataset]:
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.facet_v2 import dataset_version_dataset as versions
        from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics
        from openlineage.client.facet_v2 import schema_dataset

        totals = self._totals
        facets: dict[str, Any] = {}
        numbers: dict[str, Any] = {}
        if totals.version is not None:
            fields = [schema_dataset.SchemaDatasetFacetFields(name=n, type=t) for n, t in totals.columns.items()]
            facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields)
            facets["version"] = versions.DatasetVersionDatasetFacet(datasetVersion=str(totals.version))
            numbers["outputStatistics"] = statistics.OutputStatisticsOutputDatasetFacet(
                rowCount=totals.rows, size=totals.size, fileCount=totals.files
            )
        where, name = dataset(self._started.table, namespace)
        yield OutputDataset(namespace=where, name=name, facets=facets, outputFacets=numbers)
        if totals.refused:
            refused = statistics.OutputStatisticsOutputDatasetFacet(rowCount=totals.refused)
            where, name = dataset(self._started.quarantine, namespace)
            yield OutputDataset(namespace=where, name=name, outputFacets={"outputStatistics": refused})

    def _send(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._client.emit(event)
            except Exception as failed:
                _log().warning("OpenLineage: an event was not sent: %r", failed)

    def _close(self) -> None:
        with suppress(queue.Full):
            self._waiting.put(None, timeout=_PATIENCE_S / 2)
        self._sends.join(_PATIENCE_S / 2)
        if self._sends.is_alive():
            _log().warning("OpenLineage: the server does not answer; the run's last events were not sent")


def dataset(identifier: str, namespace: str) -> tuple[str, str]:
    """OpenLineage's namespace and name of a table at a path, or of one that a catalog knows by its name.

    Args:
        namespace: of what has no namespace of its own.
    """
    scheme, separator, rest = identifier.partition("://")
    if separator:
        bucket, _, key = rest.partition("/")
        return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{bucket}", key.strip("/") or "/"
    return ("file", identifier) if identifier.startswith("/") else (namespace, identifier)


def _log() -> logging.Logger:
    return logging.getLogger("lakeingest")
