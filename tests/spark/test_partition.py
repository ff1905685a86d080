"""In which partition a record lies: CONFLUENT-SEMANTICS, sections 2 and 3, and what Delta makes of it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from chispa import assert_df_equality
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType
from support.oracle.examples import searched

from lakeingest.config import consistency, parts
from lakeingest.config.parts import Partition
from lakeingest.delta.partitioning import NO_TIME, UNSTORABLE, Layout, layout
from lakeingest.delta.table import Table
from lakeingest.errors import PipelineFileError

# A socket that pyspark's collect leaves to the garbage collector is no news of ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

YEARS = "which lies outside of the years 0001 to 9999"

NEITHER = "neither milliseconds since 1970 (1 to 19 digits) nor an ISO-8601 date or time"

NO_DATE = "which is no date and time that exists in the years 0001 to 9999"

NOW = datetime(2024, 2, 29, 23, 30, tzinfo=UTC)

LA = "America/Los_Angeles"

HOURLY = "'year'=yyyy/'month'=M/'day'=d/'hour'=H"

ZONES = ("UTC", LA, "America/Sao_Paulo", "Europe/Berlin", "Asia/Kolkata", "Asia/Tokyo", "Australia/Lord_Howe")


def part(**options: Any) -> Partition:
    return TypeAdapter(Partition).validate_python({"by": "time", **options})


TYPES = (
    *("STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "BINARY"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY<STRING>", "MAP<STRING, STRING>", "STRUCT<a: INT>"),
)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("by", ["time", "field"])
def test_check_and_run_agree_on_types(spark: SparkSession, by: str, kind: str) -> None:
    """A file that passes `check` is not refused when the table is to be made, and the other way round."""
    made = part(by=by, field="c")
    file = consistency.Parts(decode=parts.Decode(), schema=parts.Schema(columns=f"c {kind}"), partition={0: made})
    told = consistency.mistakes(file)
    checked = not list(told)
    try:
        laid_out(spark, f"c {kind}", made)
    except PipelineFileError:
        assert not checked
    else:
        assert checked


def laid_out(spark: SparkSession, schema: str, *parts: Partition) -> Layout:
    return layout(parts, StructType.fromDDL(schema) if schema else StructType(), NOW)


def placed(frame: DataFrame, made: Layout) -> DataFrame:
    """The frame with the partition columns that lakeingest computes."""
    return frame.withColumns({c.name: c.value for c in made.columns if c.value is not None})


def path_of(frame: DataFrame, made: Layout) -> list[str | None]:
    """Every row's partition as name=value/name=value; null where it is refused."""
    values = [F.concat(F.lit(f"{c.name}="), F.col(c.name).cast("string")) for c in made.columns]
    refused = made.refusals[0].when if made.refusals else F.lit(False)
    rows = placed(frame, made).select(F.when(~refused, F.concat_ws("/", *values)).alias("path")).collect()
    return [row.path for row in rows]


def written(spark: SparkSession, path: Path, frame: DataFrame, made: Layout) -> DataFrame:
    """A table with generated columns, which are declared and never written."""
    Table(spark, str(path)).create(frame.schema, made.columns)
    placed(frame, made).coalesce(1).write.format("delta").mode("append").save(str(path))
    return spark.read.format("delta").load(str(path))


def files(frame: DataFrame) -> int:
    return frame.select("_metadata.file_path").distinct().count()


def plan(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    frame.explain("formatted")
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("millis", "zone", "period", "expected"),
    [
        (1427961600000, LA, ("hour", HOURLY), "year=2015/month=4/day=2/hour=1"),
        (1427961600000, LA, ("2 hours", HOURLY), "year=2015/month=4/day=2/hour=0"),
        (28800000, LA, ("hour", HOURLY), "year=1970/month=1/day=1/hour=0"),
        (1446366600000, LA, ("hour", HOURLY), "year=2015/month=11/day=1/hour=1"),
        (1446370200000, LA, ("hour", HOURLY), "year=2015/month=11/day=1/hour=1"),
        (1446342240000, "UTC", ("15 minutes", None), "time=2015-11-01-01-30"),
        (1446342242000, "UTC", ("90 seconds", None), "time=2015-11-01-01-43-30"),
        (-1, "UTC", ("hour", None), "hour=1969-12-31-23"),
        (-1, "UTC", ("15 minutes", None), "time=1969-12-31-23-45"),
        (1446342240000, "Asia/Kolkata", ("hour", None), "hour=2015-11-01-07"),
        (1425810600000, LA, ("2 hours", HOURLY), "year=2015/month=3/day=8/hour=2"),
        (1420070399999, "UTC", ("day", None), "day=2014-12-31"),
        (1420070399999, "Europe/Berlin", ("day", None), "day=2015-01-01"),
        (1420070399999, "UTC", ("month", None), "month=2014-12"),
        (1420070399999, "UTC", ("year", None), "year=2014"),
        (1446342240000, "UTC", ("year", "year=yyyy/'at'='m'MM'/'dd"), "year=2015/at=m01/01"),
        (1446342240000, "UTC", ("1 day", "'day'=D/'name'=EEEE"), "day=305/name=Sunday"),
        (1446342240000, "UTC", ("1 day", "'day'=DD"), "day=305"),
    ],
)
def test_period(spark: SparkSession, millis: int, zone: str, period: tuple[str, str | None], expected: str) -> None:
    """A time lies in the period of its zone, and DST, 1970 and New Year change nothing about it."""
    made = laid_out(spark, "t BIGINT", part(field="t", every=period[0], timezone=zone, format=period[1]))

    assert path_of(spark.sql(f"SELECT {millis}L AS t"), made) == [expected]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("TIMESTAMP", "TIMESTAMP'2015-04-02 08:00:00Z'", "hour=2015-04-02-01"),
        ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ'2015-04-02 01:30:00'", "hour=2015-04-02-01"),
        ("DATE", "DATE'2015-04-02'", "hour=2015-04-02-00"),
        ("INT", "28800000", "hour=1970-01-01-00"),
        ("BIGINT", "1427961600000L", "hour=2015-04-02-01"),
        ("STRING", "'1427961600000'", "hour=2015-04-02-01"),
        ("STRING", "'-3600000'", "hour=1969-12-31-15"),
        ("STRING", "'2015-04-02T08:00:00Z'", "hour=2015-04-02-01"),
        ("STRING", "'2013'", "hour=1969-12-31-16"),
        ("STRING", "'2015-04-02T10:00+0200'", "hour=2015-04-02-01"),
        ("STRING", "'2015-04-02T08:00Z'", "hour=2015-04-02-01"),
        ("STRING", "'2015-04-02T10:00:00.123456789+02:00'", "hour=2015-04-02-01"),
        ("STRING", "'2015-04-02 00:00:00-0800'", "hour=2015-04-02-01"),
        ("STRING", "'2015-04-02T01:00:00.5'", "hour=2015-04-02-01"),
        ("STRING", "'2015-04-02'", "hour=2015-04-02-00"),
        ("STRING", "'9999-12-31T23:59:59'", "hour=9999-12-31-23"),
        ("STRUCT<at: STRING>", "NAMED_STRUCT('at', '2015-04-02T01:00')", "hour=2015-04-02-01"),
        ("MAP<STRING, BIGINT>", "MAP('at', 1427961600000L)", "hour=2015-04-02-01"),
    ],
)
def test_time_of_every_type(spark: SparkSession, kind: str, value: str, expected: str) -> None:
    """A field's time is read from every type that may hold one, in Los Angeles where it names no zone."""
    field = "t.at" if "<" in kind else "t"
    made = laid_out(spark, f"t {kind}", part(field=field, every="hour", timezone=LA))

    assert path_of(spark.sql(f"SELECT {value} AS t"), made) == [expected]


NO_TIMES = (
    "T10:00", "2015-02-30", "2015-04-02T24:00", "2015-04-02T01:00+19:00", "2015-04-02T01", "2015-4-2",
    " 2015-04-02", "2015-04-02\n", "", "now", "1e3", "99999999999999999999", "9223372036854775807",
    "-9223372036854775808", "12345678901234567890", "0000-01-01", "2015-04-02T01:00:00 UTC", "٢٠١٥-04-02",
)  # fmt: skip


def test_a_string_that_is_no_time_is_refused(spark: SparkSession) -> None:
    """Spark's cast takes a time of today, blanks and more for a time; here each is refused by its value."""
    made = laid_out(spark, "t STRING", part(field="t"))
    frame = spark.createDataFrame([(t,) for t in NO_TIMES], "t STRING")

    rows = placed(frame, made).select("t", made.refusals[0].when.alias("no"), made.refusals[0].diagnosis().alias("d"))

    assert [(r.t, r.no, r.d.reason, repr(r.t)[1:5] in r.d.message or "\n" in r.t) for r in rows.collect()] == [
        (t, True, NO_TIME, True) for t in NO_TIMES
    ]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("STRING", "null", "t is null or missing"),
        ("STRING", "'nope'", f"t is 'nope', {NEITHER}"),
        ("STRING", "'2015-02-30'", f"t is '2015-02-30', {NO_DATE}"),
        ("BIGINT", "9223372036854775807L", f"t is '9223372036854775807', {YEARS}"),
        ("BIGINT", "-9223372036854775807L", f"t is '-9223372036854775807', {YEARS}"),
        ("DATE", "DATE'+100000-01-01'", f"t is '+100000-01-01', {YEARS}"),
        ("TIMESTAMP", "TIMESTAMP_MICROS(9223372036854775807L)", f"t is '+294247-01-10 04:00:54.775807', {YEARS}"),
        ("STRUCT<at: INT>", "null", "t.at is null or missing"),
        ("MAP<STRING, BIGINT>", "MAP('other', 1L)", "t.at is null or missing"),
    ],
)  # fmt: skip
def test_refusal_says_why(spark: SparkSession, kind: str, value: str, message: str) -> None:
    """A record without a time is refused by itself, and the message names field, value and reason."""
    made = laid_out(spark, f"t {kind}", part(field="t.at" if "<" in kind else "t", timezone=LA))
    (refusal,) = made.refusals

    row = (
        placed(spark.sql(f"SELECT CAST({value} AS {kind}) AS t"), made)
        .select(refusal.when, refusal.diagnosis())
        .first()
    )

    assert row is not None
    assert (row[0], row[1].message) == (True, message)


def test_record_extractor(spark: SparkSession) -> None:
    """Without a field, the Kafka record's timestamp decides; a record without one is refused."""
    made = laid_out(spark, "", part())
    frame = spark.sql("SELECT * FROM VALUES (TIMESTAMP'2015-04-02 08:00:00Z'), (null) AS t(_timestamp)")

    assert path_of(frame, made) == ["day=2015-04-02", None]


def test_wallclock_extractor(spark: SparkSession) -> None:
    """The batch's one clock places every record, and refuses none."""
    made = laid_out(spark, "", part(extract="wallclock", timezone="Asia/Tokyo"))

    assert (path_of(spark.range(2), made), made.refusals) == (["day=2024-03-01"] * 2, ())


INSTANTS = st.integers(-2208988800_000, 4102444800_000)

EVERY = {"hour": timedelta(hours=1), "day": timedelta(days=1), "15 minutes": timedelta(minutes=15)}


@settings(searched(2), phases=[Phase.generate])
@given(millis=st.lists(INSTANTS, min_size=200, max_size=300))
def test_floor_agrees_with_zoneinfo(spark: SparkSession, millis: list[int]) -> None:
    """Python's own time zones, 1900 to 2100, give every instant the same period."""
    format_ = "'start'=yyyy-MM-dd HH:mm"
    cases = [(zone, every) for zone in ZONES for every in EVERY]
    values = [
        laid_out(spark, "t BIGINT", part(field="t", every=e, timezone=z, format=format_)).columns[0].value
        for z, e in cases
    ]
    frame = spark.createDataFrame([(m,) for m in millis], "t BIGINT").select(*(v for v in values if v is not None))

    epoch = datetime(1970, 1, 1)
    for row, at in zip(frame.collect(), millis, strict=True):
        for text, (zone, every) in zip(row, cases, strict=True):
            there = (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at)).astimezone(ZoneInfo(zone))
            floor = epoch + (there.replace(tzinfo=None) - epoch) // EVERY[every] * EVERY[every]
            assert (zone, every, at, text) == (zone, every, at, floor.strftime("%Y-%m-%d %H:%M"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"by": "field", "field": "x"}, "double"),
        ({"by": "field", "field": "s.gone"}, "leads to no 'gone'"),
        ({"by": "field", "field": "gone"}, "not among the columns"),
        ({"field": "x"}, "choose TIMESTAMP"),
    ],
)
def test_layout_refuses_types(spark: SparkSession, options: dict[str, Any], problem: str) -> None:
    """A field that is not there, or of a type that makes no partition, is refused before any batch."""
    with pytest.raises(PipelineFileError) as error:
        laid_out(spark, "x DOUBLE, s STRUCT<a: INT>", part(**options))

    assert problem in str(error.value)


FIELDS = (
    part(by="field", field="carrier"),
    part(by="field", field="s.n"),
    part(by="field", field="s.ok", name="fine"),
    part(by="field", field="m.k"),
    part(by="kafka_partition"),
)

VALUES = (
    "plain",
    "a/b",
    "a=b",
    "100%",
    "zürich 日本",
    "a b",
    "it's",
    '"q"',
    "line\nbreak",
    "..",
    "{x}[y]^#:?*\\",
    None,
)


def test_field_partitions_in_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Columns, struct fields, map values and Kafka partitions all land in their partition, nulls too, in order."""
    schema = "carrier STRING, s STRUCT<n: INT, ok: BOOLEAN>, m MAP<STRING, STRING>"
    made = laid_out(spark, schema, *FIELDS)
    rows = [("AA", (1, True), {"k": "v"}, 0), ("BB", None, {}, 1), (None, (None, False), None, 1)]
    frame = spark.createDataFrame(rows, f"{schema}, _partition INT")

    table = written(spark, tmp_path, frame, made)

    expected = [("AA", 1, True, "v", 0), ("BB", None, None, None, 1), (None, None, False, None, 1)]
    names = "carrier STRING, s_n INT, fine BOOLEAN, m_k STRING, kafka_partition INT"
    assert_df_equality(
        table.select(*(c.name for c in made.columns)), spark.createDataFrame(expected, names), ignore_row_order=True
    )
    assert [c.generated for c in made.columns] == [None, "`s`.`n`", "`s`.`ok`", None, "_partition"]


def test_special_characters_round_trip(spark: SparkSession, tmp_path: Path) -> None:
    """A partition's value comes back as it went in, whatever a path or a file system means by its characters."""
    made = laid_out(spark, "carrier STRING", part(by="field", field="carrier"))
    frame = spark.createDataFrame([(v, 1) for v in VALUES], "carrier STRING, n INT")

    assert_df_equality(written(spark, tmp_path, frame, made), frame, ignore_row_order=True)


def test_empty_becomes_null(spark: SparkSession, tmp_path: Path) -> None:
    """Delta knows no empty partition value: '' lies in the partition null, and a filter still finds its record."""
    made = laid_out(spark, "s STRUCT<c: STRING>", part(by="field", field="s.c"))

    table = written(spark, tmp_path, spark.sql("SELECT NAMED_STRUCT('c', '') AS s"), made)

    assert [(r.s.c, r.s_c) for r in table.where("s.c = ''").collect()] == [("", None)]


@pytest.mark.parametrize(
    ("schema", "value", "refused"),
    [
        ("c STRING", "", False),
        ("c STRING NOT NULL", "", True),
        ("c STRING", None, False),
        ("c STRING", "x" * 253, False),
        ("c STRING", "x" * 254, True),
        ("c STRING", "/" * 85, True),
        ("c STRING", "a\0b", True),
        ("c STRING", "日" * 84, False),
        ("c STRING", "日" * 85, True),
    ],
)
def test_value_that_no_directory_can_bear(spark: SparkSession, schema: str, value: str | None, refused: bool) -> None:
    """A string that would fail the whole batch while it is written is refused alone."""
    (refusal,) = laid_out(spark, schema, part(by="field", field="c")).refusals

    row = spark.createDataFrame([(value,)], "c STRING").select(refusal.when, refusal.diagnosis()).first()

    assert row is not None
    assert (row[0], row[1].reason) == (refused, UNSTORABLE)


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ("c STRING", "c"),
        ("c STRING NOT NULL", "c"),
        ("s STRUCT<c: STRING>", "s.c"),
        ("m MAP<STRING, STRING>", "m.c"),
    ],
)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("'__HIVE_DEFAULT_PARTITION__'", "is '__HIVE_DEFAULT_PARTITION__', which Delta stores as null"),
        ("CAST(X'61FF' AS STRING)", "is a text that is not UTF-8, which Delta stores as another one"),
        ("'__hive_default_partition__'", None),
        ("'__HIVE_DEFAULT_PARTITION__ '", None),
    ],
)
def test_a_value_that_delta_would_change_is_refused(
    spark: SparkSession, schema: str, field: str, value: str, message: str | None
) -> None:
    """One record with the name of the partition null made a NOT NULL column null, and each later read fail."""
    within = {"c": value, "s.c": f"NAMED_STRUCT('c', {value})", "m.c": f"MAP('c', {value})"}[field]
    (refusal,) = laid_out(spark, schema, part(by="field", field=field)).refusals

    row = spark.sql(f"SELECT {within} AS {field[0]}").select(refusal.when, refusal.diagnosis()).first()

    assert row is not None
    assert row[0] is (message is not None)
    assert message is None or row[1].message == f"{field} {message}"


@pytest.fixture(scope="module")
def daily(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Ten days, hour by hour, in days of Los Angeles; one file a partition."""
    made = laid_out(spark, "at TIMESTAMP", part(field="at", timezone=LA))
    hours = spark.range(240).select(F.timestamp_seconds(F.lit(1427871600) + F.col("id") * 3600).alias("at"), "id")
    return written(spark, tmp_path_factory.mktemp("daily"), hours, made)


def test_filter_on_the_time_reads_its_files_only(daily: DataFrame) -> None:
    """The files' own statistics answer a filter on the time: two days of ten are opened."""
    found = daily.where("at >= TIMESTAMP'2015-04-05 12:00:00Z' AND at < TIMESTAMP'2015-04-06 12:00:00Z'")

    assert (found.count(), files(found), files(daily)) == (24, 2, 10)


@pytest.mark.parametrize("zone", ["UTC", LA, "Asia/Kolkata"])
def test_no_reader_misses_a_row(daily: DataFrame, spark: SparkSession, zone: str) -> None:
    """A filter on the time finds every row whatever time zone the reader is in; with CAST(at AS DATE) it would not."""
    reader = spark.newSession()
    reader.conf.set("spark.sql.session.timeZone", zone)
    table = reader.read.format("delta").load(str(Path(daily.inputFiles()[0].removeprefix("file:")).parents[1]))

    assert table.where("at < TIMESTAMP'2015-04-02 01:00:00Z'").count() == 18


def test_filter_on_a_date_prunes_partitions(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A DATE is the same in every zone: its day is generated, and a filter on the date becomes a partition filter."""
    made = laid_out(spark, "d DATE, id BIGINT", part(field="d"))
    table = written(
        spark, tmp_path, spark.sql("SELECT DATE_ADD('2015-04-01', INT(id)) AS d, id FROM RANGE(0, 4, 1, 1)"), made
    )

    found = table.where(F.col("d") == date(2015, 4, 2))

    assert made.columns[0].generated == "`d`"
    assert "day" in plan(found, capsys).partition("PartitionFilters:")[2].splitlines()[0]
    assert ([r.id for r in found.collect()], files(found)) == ([1], 1)


def test_filter_on_the_kafka_partition_prunes(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A filter on the coordinate _partition becomes a partition filter."""
    made = laid_out(spark, "", part(by="kafka_partition"))
    table = written(spark, tmp_path, spark.sql("SELECT INT(id % 4) AS _partition, id FROM RANGE(0, 8, 1, 1)"), made)

    found = table.where("_partition = 3")

    assert "kafka_partition" in plan(found, capsys).partition("PartitionFilters:")[2].splitlines()[0]
    assert (found.count(), files(found)) == (2, 1)


def test_partition_of_a_top_level_field_is_the_field(spark: SparkSession) -> None:
    """A declared column needs no second one; under another name Delta generates it."""
    made = laid_out(spark, "c STRING", part(by="field", field="c"), part(by="field", field="c", name="again"))

    assert [(c.name, c.type, c.generated, c.value) for c in made.columns] == [
        ("c", StringType(), None, None),
        ("again", StringType(), "`c`", None),
    ]


def test_partitions_that_are_too_long_together(spark: SparkSession) -> None:
    """S3 refuses a key of more than 1,024 bytes: such a record stopped the pipeline for good."""
    frame = spark.createDataFrame(
        [(w * "x", w * "y", n) for n, w in enumerate((1, 200, 201, 240))], "a STRING, b STRING, n INT"
    )
    frame = frame.unionByName(frame.selectExpr("CAST(NULL AS STRING) AS a", "b", "n + 4 AS n"))
    parts_ = [part(by="field", field="a"), part(by="field", field="b")]

    def refused(path: str) -> list[int]:
        (*_, last) = made = layout(parts_, frame.schema, NOW, path).refusals
        if len(made) == 2:
            return []
        rows = frame.where(last.when).select(
            "n",
            last.diagnosis().getField("reason").alias("reason"),
            last.diagnosis().getField("message").alias("message"),
        )
        found = rows.orderBy("n").collect()
        assert {row.reason for row in found} <= {UNSTORABLE}
        assert all("fit into a key of S3" in row.message for row in found)
        return [row.n for row in found]

    # The key has 497 bytes and a slash: 406 are left for a=…/b=…/
    assert refused(f"s3a://lake/{'k' * 497}") == [2, 3]
    assert refused(f"s3a://lake/{'ü' * 200}") == []
    assert refused(f"/lake/{'k' * 800}") == []
