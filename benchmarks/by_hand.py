"""The Spark jobs that one writes by hand: a topic of orders into a Delta table on S3, partitioned by day."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import orders
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeingest.schema.formats import protobuf, protobuf_values

_COORDINATES = ("topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class ByHand:
    """The jobs for one topic.

    Attributes:
        kafka: its bootstrap servers.
        batch: the most records of a micro-batch.
    """

    spark: SparkSession
    kafka: str
    topic: str
    shape: str
    format: str
    batch: int

    def bare(self, table: str) -> None:
        """Structured Streaming without any check."""
        writer = self._rows().select(*_COORDINATES, "order.*", "day").writeStream.format("delta").partitionBy("day")
        where = f"s3a://lake/{table}"
        query = writer.option("checkpointLocation", f"{where}_checkpoint").trigger(availableNow=True).start(where)
        query.awaitTermination()

    def dead_letters(self, table: str) -> None:
        """The same with foreachBatch: the batch is kept, its good rows are written, then its bad ones."""
        where = f"s3a://lake/{table}"

        def write(batch: DataFrame, number: int) -> None:
            rows = batch.persist()
            once = {"txnAppId": table, "txnVersion": str(number)}
            good = F.col("order").isNotNull() & F.col("order.id").isNotNull() & F.col("order.city").isin(*orders.CITIES)
            fine = rows.where(good).select(*_COORDINATES, "order.*", "day")
            fine.write.format("delta").mode("append").partitionBy("day").options(**once).save(where)
            dead = rows.where(~good | good.isNull()).select(*_COORDINATES, "value")
            dead.write.format("delta").mode("append").options(**once).save(f"{where}_dead")
            rows.unpersist()

        query = self._rows().writeStream.foreachBatch(write).option("checkpointLocation", f"{where}_checkpoint")
        query.trigger(availableNow=True).start().awaitTermination()

    def _rows(self) -> DataFrame:
        """The columns, null where a record does not parse."""
        options = {
            "kafka.bootstrap.servers": self.kafka,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self.batch),
        }
        kafka = self.spark.readStream.format("kafka").options(**options).load()
        made = kafka.select(*_COORDINATES, "value", self.parsed(F.col("value")).alias("order"))
        return made.withColumn("day", F.to_date("order.ts"))

    def parsed(self, value: Column) -> Column:
        columns = orders.SHAPES[self.shape].columns.replace(" NOT NULL", "")
        if self.format == "json":
            return F.from_json(value.cast("string"), columns)
        if self.format == "avro":
            from pyspark.sql.avro.functions import from_avro

            schema = json.dumps(orders.avro(self.shape))
            return from_avro(F.expr("substring(value, 6)"), schema, {"mode": "PERMISSIVE"})
        return _message(columns)(value)


def _message(columns: str) -> Any:
    """A Python UDF, as one writes it where Spark's `from_protobuf` is not on the cluster."""
    descriptors = protobuf.compile(orders.MESSAGE)
    described = protobuf_values.descriptor

    def read(value: bytes) -> tuple[Any, ...] | None:
        from google.protobuf import message_factory
        from google.protobuf.message import DecodeError

        kind = read.__dict__.get("kind")
        if kind is None:
            kind = read.__dict__["kind"] = message_factory.GetMessageClass(described(descriptors, "Order"))
        try:
            order = kind.FromString(value[6:])
        except DecodeError:
            return None
        place = order.city, order.postcode
        return order.id, order.ts.ToDatetime(), *place, order.name, order.channel, order.amount, order.paid

    return F.udf(read, columns, useArrow=True)
