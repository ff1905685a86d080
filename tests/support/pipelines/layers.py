"""A bronze table that is fed from Kafka, and a silver pipeline that is fed from it."""

from __future__ import annotations

from typing import Any

from support.pipelines import World, values_of

from lakeingest.config import file
from lakeingest.delta.receipt import Counts
from lakeingest.operations.results.audit import Report
from lakeingest.pipeline import Pipeline


class Layers(World):
    """As a world, it is bronze: records as bytes."""

    def values(self, **changes: Any) -> dict[str, Any]:
        decode = {"value": {"format": "bytes"}, **changes.pop("decode", {})}
        return {**super().values(**changes, decode=decode), "schema": {}}

    def silver_values(self, **changes: Any) -> dict[str, Any]:
        """What the silver pipeline's file holds. It names no Kafka, if it is not told to."""
        values = values_of(self.stack, f"{self.name}_silver", **changes)
        return {**values, "source": changes.get("source", {"table": self.path()})}

    def silver(self, **changes: Any) -> Pipeline:
        return Pipeline(file.from_mapping(self.silver_values(**changes)))

    def fed(self, **changes: Any) -> Counts:
        """What a run of silver takes until it is caught up."""
        return self.silver(**changes).run(until_caught_up=True)

    def agreed(self, **changes: Any) -> Report:
        """Bronze and silver are conserved, and each record that bronze has is in silver once, or in its quarantine, if
        it was not dropped.
        """
        assert self.ingestion().audit().conserved
        silver = self.silver(**changes)
        report = silver.audit()
        assert report.conserved, report
        assert min(report.missing, report.duplicated, report.gaps) >= 0, report
        coordinates = ("_topic", "_partition", "_offset")
        refused = silver.quarantine(closed=True).where("moved IS NULL")
        found = [tuple(row) for rows in (silver.table(), refused) for row in rows.select(*coordinates).collect()]
        held = {tuple(row[name] for name in coordinates) for row in self.rows()}
        assert len(found) == len(set(found))
        assert (held >= set(found), report.consumed) == (True, len(held)), report
        assert len(found) + report.dropped == len(held)
        return report
