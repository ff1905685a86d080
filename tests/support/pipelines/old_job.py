"""A job by hand, as whoever adopts a table has one: Kafka's records into a Delta table, with names of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeingest.local import Addresses
from lakeingest.testing.manifest import Manifest, Place

COORDINATES = {"topic": "src.topic", "partition": "part", "offset": "off"}
"""What the job calls them, for `Pipeline.adopt`."""


@dataclass
class OldJob:
    """Takes what came since it was last called; it keeps its offsets for itself.

    Attributes:
        path: its table's.
        names, values: as SQL, what it makes of topic, partition and offset, and of the value.
    """

    stack: Addresses
    spark: SparkSession
    topic: str
    path: str
    names: tuple[str, ...] = ("struct(topic) AS src", "partition AS part", "offset AS off")
    values: tuple[str, ...] = ("v.n", "v.text")
    reached: dict[int, int] = field(default_factory=dict)

    def take(self) -> int:
        """Append one commit; how many records it has."""
        starts = (
            json.dumps({self.topic: {str(p): at for p, at in self.reached.items()}}) if self.reached else "earliest"
        )
        options = {
            "kafka.bootstrap.servers": self.stack.kafka,
            "subscribe": self.topic,
            "startingOffsets": starts,
            # Its executors keep consumers by this name.
            "groupIdPrefix": f"old-{self.topic}",
        }
        taken = self.spark.read.format("kafka").options(**options).load().cache()
        try:
            value = F.from_json(F.col("value").cast("string"), "n INT, text STRING")
            rows = taken.withColumn("v", value).selectExpr(*self.values, *self.names)
            rows.write.format("delta").mode("append").save(self.path)
            ends = taken.groupBy("partition").agg(F.max("offset") + 1, F.count("offset")).collect()
            self.reached |= {p: end for p, end, _ in ends}
            return sum(count for _, _, count in ends)
        finally:
            taken.unpersist()


def places(rows: DataFrame, refused: DataFrame, topic: str) -> list[Place]:
    """Where each row of an adopted table, and of its quarantine, came from: by the old job's names or by ours."""
    old = "src.topic" if "src" in rows.columns else f"'{topic}'"
    names = f"coalesce(_topic, {old})", "coalesce(_partition, part)", "coalesce(_offset, off)"
    unmoved = refused.where("moved IS NULL")
    taken = rows.selectExpr(*names).collect() + unmoved.select("_topic", "_partition", "_offset").collect()
    return sorted((t, p, o) for t, p, o in taken)


def assert_each_once(rows: DataFrame, refused: DataFrame, wanted: Manifest) -> None:
    """Every record is once in the table, by whomever, or in quarantine."""
    ((topic, _, _), *_) = wanted
    assert places(rows, refused, topic) == sorted(wanted)
