"""What of frames differs by platform: whether it holds them, names them in statements, and how it types text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from lakeingest.schema import ddl
from lakeingest.spark import jvm, types
from lakeingest.spark.platforms import capabilities
from lakeingest.spark.session import setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")
_OBSERVED = {
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
}


def keep(frame: DataFrame) -> DataFrame:
    """The frame, held from its first use on; where the platform holds none, each use computes it anew."""
    return frame.persist() if capabilities.of(frame.sparkSession).keeps_frames else frame


def observing(session: SparkSession) -> AbstractContextManager[None]:
    """While what is observed below a shuffle is computed: where no row came through it, Spark would put an empty plan
    in place of all that lies below, and what was observed would be lost. Serverless compute has no such setting.
    """
    return setting(session, _OBSERVED) if capabilities.of(session).keeps_frames else nullcontext()


def release(frame: DataFrame) -> None:
    """Let go what `keep` holds."""
    if capabilities.of(frame.sparkSession).keeps_frames:
        frame.unpersist()


def stay_resolved(session: SparkSession) -> bool:
    """Whether a frame that is resolved once can be computed for each batch: the jar says what it reads.

    Over Spark Connect each request has a plan of its own.
    """
    return jvm.offered("records") and not capabilities.of(session).connect


class ResolvedFrame:
    """A frame that is made of another one, and made once: Spark need not resolve it anew."""

    def __init__(self) -> None:
        self._source: object = None
        self._frame: DataFrame | None = None

    def of(self, source: object, make: Callable[[], DataFrame]) -> DataFrame:
        """What was made before for the same source, or is made now."""
        if self._frame is None or self._source != source:
            self._source, self._frame = source, make()
        return self._frame


def computed(
    session: SparkSession, statement: str, frames: Mapping[str, DataFrame], compute: Callable[[DataFrame], Result]
) -> Result:
    """What `compute` makes of the result of a statement, which has names of frames in braces.

    Frames of another session are views; over Spark Connect all are. As parts of the statement protobuf's library
    would parse them, and it takes no more than a hundred messages within each other: a frame of some 40 steps has more.
    """
    if not capabilities.of(session).connect and all(frame.sparkSession is session for frame in frames.values()):
        return compute(session.sql(statement, None, **frames))
    with ExitStack() as views:
        names = {name: views.enter_context(view(frame, session)) for name, frame in frames.items()}
        return compute(session.sql(statement.format(**names)))


@contextmanager
def view(frame: DataFrame, session: SparkSession) -> Iterator[str]:
    """A name by which a session knows a frame, also one of another session."""
    name = f"lakeingest_{uuid4().hex}"
    if frame.sparkSession is session:
        frame.createOrReplaceTempView(name)
        try:
            yield name
        finally:
            session.catalog.dropTempView(name)
        return
    frame.createOrReplaceGlobalTempView(name)
    try:
        yield f"global_temp.{name}"
    finally:
        frame.sparkSession.catalog.dropGlobalTempView(name)


def for_new_columns(frame: DataFrame) -> DataFrame:
    """The frame, with types that a table's new columns can have.

    Over Spark Connect every STRING of a cast or a function names its collation since Spark 4.2, and Delta logs the type
    as "string collate UTF8_BINARY", which delta-rs cannot read. A type that is sent as text has none.
    """
    from pyspark.sql import functions as F

    if not capabilities.of(frame.sparkSession).connect:
        return frame
    return frame.select(
        *(
            F.col(ddl.quoted(field.name))
            .cast(types.sql_type(field.dataType, comments=True))
            .alias(field.name, metadata=field.metadata)
            for field in frame.schema
        )
    )
