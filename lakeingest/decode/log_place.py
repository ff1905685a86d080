"""Where an event of Debezium's stands in the database's log, and when it was committed, by its `source`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakeingest.schema import debezium
from lakeingest.schema.debezium import Connector
from lakeingest.spark import timestamps


def time_of(source: Mapping[str, Column]) -> Column:
    """TIMESTAMP: when the database committed an event; null where `source` does not tell."""
    counts = {"ts_us": F.timestamp_micros, "ts_ms": F.timestamp_millis}
    times = (timestamps.within_years(count(source[name])) for name, count in counts.items() if name in source)
    return F.coalesce(*times, F.lit(None).cast("timestamp"))


def position(source: Mapping[str, Column]) -> Column:
    """STRUCT<commit, event, row>, never null: an event's place in its connector's log.

    Of PostgreSQL the end of the transaction before, and the event's own place: events come in the order of commits, not
    in that of the log. Of another connector zeros: offsets alone tell the order then.

    Args:
        source: see `debezium.source_fields`.
    """
    return placed(place(source, debezium.connector(source)))


def placed(parts: Sequence[Column]) -> Column:
    """STRUCT<commit, event, row>, never null, of up to three numbers."""
    zero = F.lit(0).cast("bigint")
    names = (debezium.COMMIT, debezium.EVENT, debezium.ROW)
    numbers = (*parts, zero, zero, zero)
    return F.struct(*(F.coalesce(part, zero).alias(name) for part, name in zip(numbers, names, strict=False)))


def place(source: Mapping[str, Column], connector: Connector | None) -> tuple[Column, ...]:
    """The numbers of an event's place, the most significant first; see `position`."""
    zero = F.lit(0).cast("bigint")
    match connector:
        case "postgresql":
            before = F.get_json_object(source["sequence"], "$[0]") if "sequence" in source else F.lit(None)
            # Behind a start it knows of no transaction before; the event's own place lies before the next one's end.
            return F.coalesce(before.try_cast("bigint"), source["lsn"]), source["lsn"]
        case "mysql":
            file = F.regexp_extract(source["file"], r"(\d+)$", 1).try_cast("bigint")
            return file, source["pos"], source.get("row", zero)
        case "sqlserver":
            return _lsn(source["commit_lsn"]), _lsn(source["change_lsn"]), source.get("event_serial_no", zero)
        case "oracle":
            scn = source["scn"].try_cast("bigint")
            return F.coalesce(source.get("commit_scn", scn).try_cast("bigint"), scn), scn
        case "mongodb":
            # The seconds of the cluster's clock, and the number within the second.
            return source["ts_ms"], source["ord"]
    return ()


def _lsn(text: Column) -> Column:
    """DECIMAL: a log sequence number of SQL Server, as in 00000027:00000ac0:0002."""
    parts = [F.conv(F.get(F.split(text, ":"), F.lit(at)), 16, 10).try_cast("decimal(12,0)") for at in range(3)]
    high, middle, low = parts
    return ((high * F.lit(2**32) + middle) * F.lit(2**16) + low).try_cast("decimal(25,0)")
