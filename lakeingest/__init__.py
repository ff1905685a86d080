"""lakeingest: Kafka records into Delta Lake tables on S3, exactly once.

The way of a record, rooms in order: `source` reads exactly the offsets that the log says come next, `decode` turns
bytes into columns, `gate` holds these against a suite of expectations, `partition` says where a record lies, `commit`
writes the rows and the receipt in one Delta commit, `quarantine` keeps what was refused. `corridor` walks a
micro-batch through them, batch after batch, as `pipeline` says; `audit` proves afterwards that nothing is missing or
double.

Records that name a schema of a `registry` are read with it. `evolution` decides what the table makes of a new one, by
the pure rules of `schema`; the ledger of what it decided rides in the same commit, and `timeline` reads it back.

    import lakeingest
    lakeingest.load("pipelines/flights.yaml").run(until_caught_up=True)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lakeingest.errors import LakeingestError

if TYPE_CHECKING:
    from lakeingest.pipeline import Pipeline
else:
    # Hidden from type checkers: they would take every name for one of ours, misspelled ones too.
    def __getattr__(name: str) -> object:
        """`Pipeline`, imported when it is first asked for: to check a file must not need pyspark.

        Raises:
            SetupError: pyspark is not installed.
        """
        if name == "Pipeline":
            return _pipeline()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["LakeingestError", "Pipeline", "load"]

_SPARK = ("pyspark", "py4j", "delta", "pyarrow")
"""What a plain install does not have, and the class of a pipeline imports."""


def load(file: str | Path) -> Pipeline:
    """Read a pipeline file, and give the pipeline that can be run, asked and audited. Starts nothing yet.

    Raises:
        PipelineFileError: the file is wrong; `problems` holds every mistake.
        SetupError: pyspark is not installed; or the file names no brokers, and no embedded stack is running.
    """
    from lakeingest.config import file as pipeline_file

    config = pipeline_file.read(Path(file), os.environ)
    return _pipeline()(config)


def _pipeline() -> type[Pipeline]:
    from lakeingest.errors import SetupError

    try:
        from lakeingest.pipeline import Pipeline
    except ModuleNotFoundError as missing:
        # Any other module that is missing is a fault of ours, and no reason to install Spark.
        if missing.name is None or missing.name.partition(".")[0] not in _SPARK:
            raise
        raise SetupError(
            f"{missing.name} is not installed", cure="pip install 'lakeingest[spark]', or run on Databricks or EMR"
        ) from missing
    return Pipeline
