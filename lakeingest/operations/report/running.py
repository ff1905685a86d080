"""A pipeline that runs in this process, for a report that is made beside the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from lakeingest.config import PipelineConfig
from lakeingest.errors import UsageError
from lakeingest.ingest import endpoints
from lakeingest.ingest.source import source_of
from lakeingest.operations.readers import FileTables
from lakeingest.operations.refused import gate_results


class Running:
    """What a report asks (see `facts.Asked`), without the Spark of the run, which its batches need.

    Raises:
        UsageError: where Spark would have to be asked.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        servers, self.storage = endpoints.addresses(config)
        self.source = source_of(config, servers, self.storage, self._spark)

    @property
    def tables(self) -> NoReturn:
        raise self._refused()

    def audit(self) -> NoReturn:
        raise self._refused()

    def quarantined(self, samples: int) -> NoReturn:
        raise self._refused()

    def results(self, batches: int) -> Sequence[dict[str, Any]]:
        """See `Pipeline.results`."""
        return gate_results(FileTables(self.config, self.storage), batches)

    def _spark(self) -> NoReturn:
        raise self._refused()

    def _refused(self) -> UsageError:
        return UsageError(
            "it cannot be read without Spark, which is the run's here; `lakeingest report` starts one of its own",
            cure="run `lakeingest report`",
        )
