"""lakeingest: Kafka records into Delta Lake tables on S3, exactly once.

    import lakeingest
    lakeingest.load("pipelines/flights.yaml").run(until_caught_up=True)

The way of a record, package by package: `kafka` reads exactly the offsets that the log says come next, `decode` turns
bytes into columns, `transform` changes these as the file says, `gate` tests them against a suite of expectations,
`delta` partitions the rows, and commits them with their receipt in one Delta commit; what is refused goes to the
quarantine table. `ingest` executes micro-batch after micro-batch (`ingest.microbatch` is the place to start reading);
`operations` holds what is done with a pipeline besides running it: `operations.audit` proves that nothing is missing or
double.

Records that name a schema of a registry are read with it. `ingest.evolution` decides what the table makes of a new one,
by the pure rules of `schema`; the ledger of what it decided is in the same commit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lakeingest.errors import LakeingestError

if TYPE_CHECKING:
    from lakeingest.fleet import Fleet
    from lakeingest.pipeline import Pipeline

    __version__: str
else:
    # Hidden from type checkers: they would take every name for one of ours, misspelled ones too.
    def __getattr__(name: str) -> object:
        """`Pipeline` and `Fleet`, imported when they are first asked for: to check a file must not need pyspark.
        `__version__` (see `version.installed`).

        Raises:
            SetupError: pyspark is not installed, or older than lakeingest can use.
        """
        if name == "Pipeline":
            return _pipeline()
        if name == "Fleet":
            _pipeline()
            from lakeingest.fleet import Fleet

            return Fleet
        if name == "__version__":
            from lakeingest import version

            return version.installed()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Fleet", "LakeingestError", "Pipeline", "load"]


def __dir__() -> list[str]:
    """What Tab shows in a notebook: what is imported when it is first asked for, too."""
    return __all__


_SPARK = ("pyspark", "py4j", "delta", "pyarrow")
"""What a plain install does not have, and the class of a pipeline imports."""


def load(file: str | Path, *, allow_code: bool = False) -> Pipeline:
    """Read a pipeline file, and give the pipeline that can be run, asked and audited. Starts nothing yet.

    Args:
        file: the YAML file; FILE:TOPIC for the pipeline of one topic, where the file is for many.
        allow_code: whether the classes of somebody's own may run that the file names (see `lakeingest.extend`).

    Raises:
        UsageError: it is given something else than a path.
        PipelineFileError: the file is wrong; `problems` holds every mistake.
        SetupError: pyspark is not installed, or older than lakeingest can use; or the file names no brokers, and no
            embedded stack is running.

    Example:
        pipeline = lakeingest.load("pipelines/flights.yaml")
        pipeline.run(until_caught_up=True)
    """
    from lakeingest.config import file as pipeline_file
    from lakeingest.errors import UsageError

    if not isinstance(file, str | Path):
        raise UsageError(
            f"load takes the path of a pipeline file, as str or Path, and was given a {type(file).__name__}",
            cure="write the options into a YAML file, which `lakeingest init FILE` begins; "
            "for several files: lakeingest.Fleet([…])",
        )
    config = pipeline_file.read(Path(file), os.environ)
    return _pipeline()(config, allow_code=allow_code)


def _pipeline() -> type[Pipeline]:
    from lakeingest.errors import SetupError
    from lakeingest.spark.platforms import capabilities

    try:
        import pyspark

        # Before the modules that need what an older one does not have.
        capabilities.refuse_old(pyspark.__version__)
        from lakeingest.pipeline import Pipeline
    except ModuleNotFoundError as missing:
        # Any other module that is missing is a fault of ours, and no reason to install Spark.
        if missing.name is None or missing.name.partition(".")[0] not in _SPARK:
            raise
        raise SetupError(
            f"{missing.name} is not installed", cure="pip install 'lakeingest[spark]', or run on Databricks or EMR"
        ) from missing
    return Pipeline
