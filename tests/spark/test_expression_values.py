"""Every function and operator of an expression, on Spark, beside exact arithmetic in Python."""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakeingest.schema import ddl, numbers
from lakeingest.schema.expression import read
from lakeingest.schema.functions import FUNCTIONS, NUMBER

DDL = (
    "id INT, i INT, k SMALLINT, big BIGINT, n DECIMAL(20,2), w DECIMAL(38,10), z DECIMAL(38,0), y DECIMAL(10,8), "
    "c DOUBLE, s STRING, p STRING, d DATE, t TIMESTAMP, ok BOOLEAN, l ARRAY<BIGINT>, "
    "st STRUCT<a: BIGINT, b: DECIMAL(20,2)>"
)
COLUMNS = ddl.parse(DDL)
FAILED = "cannot be computed"
Row = Mapping[str, Any]
Expected = Callable[[Row], Any]
D = Decimal
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST = 9_223_372_036_854_775_807


WIDE = Context(prec=400)
SCALES = {"n": 2, "w": 10, "z": 0, "y": 8}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


VALUES: dict[str, list[Any]] = {
    "i": [0, 1, -7, 2**31 - 1, -(2**31), 12345, 100],
    "k": [0, 1, -1, 32767, -32768, 5, -12],
    "big": [9007199254740993, -9007199254740993, LONGEST, -LONGEST - 1, 0, 253402300799, 1709251199999],
    "n": ["12345678901234567.89", "-12345678901234567.85", "0.05", "-0.05", "999999999999999999.99", "0.00", "1.15"],
    "w": ["1234567890123456789012345678.1234567891", "-0.0000000001", "0", "9999999999999999999999999999.9999999999",
          "2.5000000000", "-2.5", "12345678901234567.8951234567"],
    "z": [str(2**58), "9" * 38, "-" + "9" * 38, "0", "12345678901234567891", "1", "-9223372036854775809"],
    "y": ["0.00000012", "-0.00000001", "99.99999999", "0", "1.5", "-1.50000001", "0.1"],
    "c": [0.1, -2.5, 2.0**63, 1e308, 9007199254740992.0, 2.675, -(2.0**63)],
    "s": ["abc", "", "  Ä ß 😀 x ", "12345678901234567.895", "2024-02-29", "a-b-c", "9007199254740993"],
    "p": ["b", "", "ß", "-", "5", "c", "90"],
    "d": [date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(2000, 1, 1),
          date(1582, 10, 10), date(2021, 1, 3)],
    "t": [at("2024-02-29T23:59:59.999999"), at("0001-01-01T00:00:00"), at("9999-12-31T23:59:59.999999"),
          at("1969-12-31T23:59:59.999999"), at("1970-01-01T00:00:00.000001"), at("1582-10-10T01:02:03"),
          at("2021-01-03T12:34:56.789")],
    "ok": [True, False, None, True, False, None, True],
}  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """Each column's values, turned against each other so that many pairs meet; and a row of nulls."""
    made: list[dict[str, Any]] = []
    for turn in range(4):
        for number in range(7):
            row = {
                name: values[(number + turn * place) % 7]
                for place, (name, values) in enumerate(VALUES.items(), start=1)
            }
            exact = {name: D(row[name]).quantize(D(1).scaleb(-places), context=WIDE) for name, places in SCALES.items()}
            both = {"l": [row["big"], None], "st": {"a": row["big"], "b": exact["n"]}}
            made.append({"id": len(made), **row, **exact, **both})
    return [*made, {"id": len(made), **dict.fromkeys(made[0].keys() - {"id"})}]


def fits(value: Any, type_: str) -> Any:
    """A number as it stands in a type; FAILED where it does not fit."""
    if type_.startswith("decimal"):
        before, behind = numbers.digits(ddl.Atomic(type_))
        rounded = D(value).quantize(D(1).scaleb(-behind), ROUND_HALF_UP)
        return rounded if abs(rounded) < D(10) ** before else FAILED
    least = numbers.LEAST[type_]
    whole = int(D(value).quantize(D(1), ROUND_DOWN))
    return whole if least <= whole < -least else FAILED


def computed(what: Callable[..., Any], *names: str) -> Expected:
    """A value of these columns; null where one of them is."""

    def value(row: Row) -> Any:
        given = [row[name] for name in names]
        return None if any(each is None for each in given) else what(*given)

    return value


def number(type_: str, what: Callable[..., Any], *names: str) -> Expected:
    return computed(lambda *given: FAILED if (v := what(*given)) is FAILED else fits(v, type_), *names)


def half_up(places: int) -> Callable[[Any], Any]:
    return lambda value: D(value).quantize(D(1).scaleb(-places), ROUND_HALF_UP)


def whole(mode: str) -> Callable[[Any], Any]:
    return lambda value: D(value).quantize(D(1), mode)


def of_double(mode: str) -> Callable[[float], Any]:
    return lambda value: D(value).to_integral_value(mode) if abs(value) < 9e18 else FAILED


def moment(micros: Any) -> Any:
    low, high = -62_135_596_800 * 10**6, 253_402_300_800 * 10**6
    return EPOCH + timedelta(microseconds=int(micros)) if low <= micros < high else FAILED


def micros(value: datetime) -> int:
    return (value - EPOCH) // timedelta(microseconds=1)


def substring(text: str, start: int, length: int) -> str:
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(begin, 0) : max(begin + length, 0)]


def text_of(value: D) -> str:
    return f"{value:f}"


CASES: dict[str, tuple[str, Expected]] = {
    # round, floor, ceil, abs, sign, minus
    "round(n, 1)": ("decimal(20,1)", computed(half_up(1), "n")),
    "round(n)": ("decimal(19,0)", computed(half_up(0), "n")),
    "round(n, 5)": ("decimal(21,2)", computed(half_up(2), "n")),
    "round(w, 2)": ("decimal(31,2)", computed(half_up(2), "w")),
    "round(z, 2)": ("decimal(38,0)", computed(half_up(0), "z")),
    "round(big, 2)": ("bigint", computed(int, "big")),
    "round(k)": ("smallint", computed(int, "k")),
    "round(c, 2)": ("double", computed(lambda c: float(half_up(2)(D(repr(c)))) if abs(c) < 1e20 else c, "c")),
    "round(n + 0.005, 2)": ("decimal(22,2)", computed(lambda n: half_up(2)(n + D("0.005")), "n")),
    "round(round(w, 3), 2)": ("decimal(32,2)", computed(lambda w: half_up(2)(half_up(3)(w)), "w")),
    "floor(n)": ("decimal(19,0)", computed(whole(ROUND_FLOOR), "n")),
    "ceil(w)": ("decimal(29,0)", computed(whole(ROUND_CEILING), "w")),
    "floor(z)": ("decimal(38,0)", computed(D, "z")),
    "ceil(big)": ("bigint", computed(int, "big")),
    "floor(k)": ("bigint", computed(int, "k")),
    "floor(c)": ("bigint", computed(of_double(ROUND_FLOOR), "c")),
    "ceil(c)": ("bigint", computed(of_double(ROUND_CEILING), "c")),
    "floor(ceil(c / 2) / 2)": (
        "bigint",
        computed(lambda c: of_double(ROUND_FLOOR)(math.ceil(c / 2) / 2) if abs(c / 2) < 9e18 else FAILED, "c"),
    ),
    "abs(n)": ("decimal(21,2)", computed(abs, "n")),
    "abs(w)": ("decimal(38,10)", computed(abs, "w")),
    "abs(z)": ("decimal(38,0)", computed(abs, "z")),
    "abs(big)": ("bigint", number("bigint", abs, "big")),
    "abs(i)": ("int", number("int", abs, "i")),
    "abs(k)": ("smallint", number("smallint", abs, "k")),
    "abs(c)": ("double", computed(abs, "c")),
    "abs(abs(w))": ("decimal(38,10)", computed(abs, "w")),
    "-n": ("decimal(21,2)", computed(lambda n: -n, "n")),
    "- -w": ("decimal(38,10)", computed(lambda w: w, "w")),
    "abs(big - 1)": (
        "bigint",
        number("bigint", lambda b: abs(b - 1) if fits(b - 1, "bigint") is not FAILED else FAILED, "big"),
    ),
    "sign(w)": ("double", computed(lambda w: float((w > 0) - (w < 0)), "w")),
    "sign(big)": ("double", computed(lambda b: float((b > 0) - (b < 0)), "big")),
    "-w": ("decimal(38,10)", computed(lambda w: -w, "w")),
    "-z": ("decimal(38,0)", computed(lambda z: -z, "z")),
    "-big": ("bigint", number("bigint", lambda b: -b, "big")),
    "-k": ("int", computed(lambda k: -k, "k")),
    "- -c": ("double", computed(lambda c: c, "c")),
    "-(-1e0) + c": ("double", computed(lambda c: 1 + c, "c")),
    "-c": ("double", computed(lambda c: -c, "c")),
    # arithmetic
    "n + big": ("decimal(23,2)", computed(lambda n, b: n + b, "n", "big")),
    "n - 0.005": ("decimal(22,3)", computed(lambda n: n - D("0.005"), "n")),
    "n * 3": ("decimal(22,2)", computed(lambda n: n * 3, "n")),
    "n * i": ("decimal(31,2)", computed(lambda n, i: n * i, "n", "i")),
    "n * n": ("decimal(38,4)", number("decimal(38,4)", lambda n: n * n, "n")),
    "y * y": ("decimal(21,16)", computed(lambda y: y * y, "y")),
    "z + z": ("decimal(38,0)", number("decimal(38,0)", lambda z: z + z, "z")),
    "z - big": ("decimal(38,0)", number("decimal(38,0)", lambda z, b: z - b, "z", "big")),
    "w % 7": ("decimal(11,10)", computed(lambda w: w - 7 * (w / 7).to_integral_value(ROUND_DOWN), "w")),
    "big % i": (
        "bigint",
        computed(lambda b, i: (abs(b) % abs(i)) * (1 if b >= 0 else -1) if i else FAILED, "big", "i"),
    ),
    "big + 1": ("bigint", number("bigint", lambda b: b + 1, "big")),
    "big * i": ("bigint", number("bigint", lambda b, i: b * i, "big", "i")),
    "i + i": ("int", number("int", lambda i: i + i, "i")),
    "k * k": ("smallint", number("smallint", lambda k: k * k, "k")),
    "big * 1.5": ("decimal(23,1)", computed(lambda b: b * D("1.5"), "big")),
    "n / i": (
        "decimal(31,13)",
        computed(lambda n, i: (n / i).quantize(D(1).scaleb(-13), ROUND_HALF_UP) if i else FAILED, "n", "i"),
    ),
    "i / 4": ("double", computed(lambda i: i / 4, "i")),
    "big / 3": ("double", computed(lambda b: float(b) / 3.0, "big")),
    "c + i": ("double", computed(lambda c, i: c + i, "c", "i")),
    # comparisons and choices
    "big = 9007199254740992": ("boolean", computed(lambda b: b == 9007199254740992, "big")),
    "big > n": ("boolean", computed(lambda b, n: b > n, "big", "n")),
    "w >= n": ("boolean", computed(lambda w, n: w >= n, "w", "n")),
    "z BETWEEN -1 AND big": ("boolean", computed(lambda z, b: -1 <= z <= b, "z", "big")),
    "n IN (0.05, 1.15, 12345678901234567.89)": (
        "boolean",
        computed(lambda n: n in (D("0.05"), D("1.15"), D("12345678901234567.89")), "n"),
    ),
    "big <> 0 AND n <> 0": ("boolean", computed(lambda b, n: b != 0 and n != 0, "big", "n")),
    "n <=> NULL": ("boolean", lambda row: row["n"] is None),
    "coalesce(n, big)": ("decimal(22,2)", lambda row: row["n"] if row["n"] is not None else row["big"]),
    "greatest(n, big)": ("decimal(22,2)", computed(max, "n", "big")),
    "least(z, big, i)": ("decimal(38,0)", computed(min, "z", "big", "i")),
    "nullif(big, 0)": ("bigint", computed(lambda b: b or None, "big")),
    "nullif(w, 2.5)": ("decimal(38,10)", computed(lambda w: None if w == D("2.5") else w, "w")),
    "if(ok, n, big)": ("decimal(22,2)", lambda row: row["n"] if row["ok"] else row["big"]),
    "CASE i WHEN 0 THEN 1.5 WHEN 1 THEN 2 ELSE big END": (
        "decimal(21,1)",
        lambda row: {0: D("1.5"), 1: D(2)}.get(row["i"], row["big"]),
    ),
    "l[0]": ("bigint", computed(lambda items: items[0], "l")),
    "l[1]": ("bigint", lambda row: None),
    "st.b": ("decimal(20,2)", computed(lambda st: st["b"], "st")),
    "size(l)": ("int", computed(len, "l")),
    # casts
    "CAST(n AS BIGINT)": ("bigint", number("bigint", D, "n")),
    "CAST(n AS INT)": ("int", number("int", D, "n")),
    "CAST(w AS DECIMAL(20,2))": ("decimal(20,2)", number("decimal(20,2)", D, "w")),
    "CAST(w AS DECIMAL(38,2))": ("decimal(38,2)", number("decimal(38,2)", D, "w")),
    "CAST(big AS DECIMAL(20,0))": ("decimal(20,0)", computed(D, "big")),
    "CAST(big AS INT)": ("int", number("int", int, "big")),
    "CAST(big AS DECIMAL(10,2))": ("decimal(10,2)", number("decimal(10,2)", int, "big")),
    "CAST(big AS DOUBLE)": ("double", computed(float, "big")),
    "CAST(n AS DOUBLE)": ("double", computed(float, "n")),
    "CAST(c AS BIGINT)": ("bigint", number("bigint", D, "c")),
    "CAST(c AS INT)": ("int", number("int", D, "c")),
    "CAST(c AS DECIMAL(20,3))": ("decimal(20,3)", number("decimal(20,3)", lambda c: D(repr(c)), "c")),
    "CAST(z AS BIGINT)": ("bigint", number("bigint", D, "z")),
    "CAST(n AS STRING)": ("string", computed(text_of, "n")),
    "CAST(y AS STRING)": ("string", computed(text_of, "y")),
    "CAST(big AS STRING)": ("string", computed(str, "big")),
    "CAST(s AS DECIMAL(20,2))": (
        "decimal(20,2)",
        computed(lambda s: half_up(2)(D(s)) if re.fullmatch(r"\d+(\.\d+)?", s) else FAILED, "s"),
    ),
    "CAST(s AS BIGINT)": ("bigint", computed(lambda s: int(s) if s.isdigit() else FAILED, "s")),
    "CAST(s AS DATE)": ("date", computed(lambda s: date.fromisoformat(s) if s.startswith("2024") else FAILED, "s")),
    "CAST(CAST(CAST(CAST(d AS STRING) AS DATE) AS STRING) AS DATE)": ("date", computed(lambda d: d, "d")),
    "CAST(t AS BIGINT)": ("bigint", computed(lambda t: micros(t) // 10**6, "t")),
    "CAST(t AS DECIMAL(20,6))": ("decimal(20,6)", computed(lambda t: D(micros(t)).scaleb(-6), "t")),
    "CAST(t AS DATE)": ("date", computed(lambda t: t.date(), "t")),
    "CAST(d AS TIMESTAMP)": ("timestamp", computed(lambda d: datetime(d.year, d.month, d.day, tzinfo=UTC), "d")),
    "CAST(big AS TIMESTAMP)": ("timestamp", computed(lambda b: moment(b * 10**6), "big")),
    "CAST(z AS TIMESTAMP)": ("timestamp", computed(lambda z: moment(z * 10**6), "z")),
    "CAST(y AS TIMESTAMP)": ("timestamp", computed(lambda y: moment((y * 10**6).to_integral_value(ROUND_DOWN)), "y")),
    "CAST(ok AS INT)": ("int", computed(int, "ok")),
    # times
    "timestamp_seconds(big)": ("timestamp", computed(lambda b: moment(b * 10**6), "big")),
    "timestamp_seconds(n)": ("timestamp", computed(lambda n: moment(n * 10**6), "n")),
    "timestamp_seconds(CAST(y AS DECIMAL(20,6)))": (
        "timestamp",
        computed(lambda y: moment(half_up(6)(y) * 10**6), "y"),
    ),
    "timestamp_millis(big)": ("timestamp", computed(lambda b: moment(b * 1000), "big")),
    "timestamp_millis(big - 1)": ("timestamp", computed(lambda b: moment((b - 1) * 1000), "big")),
    "timestamp_micros(big)": ("timestamp", computed(moment, "big")),
    "timestamp_nanos(big)": (
        "timestamp",
        computed(lambda b: moment(D(b).scaleb(-3).to_integral_value(ROUND_DOWN)), "big"),
    ),
    "unix_micros(t)": ("bigint", computed(micros, "t")),
    "unix_seconds(t)": ("bigint", computed(lambda t: micros(t) // 10**6, "t")),
    "unix_millis(t)": ("bigint", computed(lambda t: micros(t) // 1000, "t")),
    "year(d)": ("int", computed(lambda d: d.year, "d")),
    "month(t)": ("int", computed(lambda t: t.month, "t")),
    "day(d)": ("int", computed(lambda d: d.day, "d")),
    "quarter(d)": ("int", computed(lambda d: (d.month + 2) // 3, "d")),
    "dayofweek(d)": ("int", computed(lambda d: d.isoweekday() % 7 + 1, "d")),
    "dayofyear(d)": ("int", computed(lambda d: d.timetuple().tm_yday, "d")),
    "weekofyear(d)": ("int", computed(lambda d: d.isocalendar()[1], "d")),
    "hour(t)": ("int", computed(lambda t: t.hour, "t")),
    "minute(t)": ("int", computed(lambda t: t.minute, "t")),
    "second(t)": ("int", computed(lambda t: t.second, "t")),
    "datediff(d, CAST(t AS DATE))": ("int", computed(lambda d, t: (d - t.date()).days, "d", "t")),
    "date_trunc('hour', t)": ("timestamp", computed(lambda t: t.replace(minute=0, second=0, microsecond=0), "t")),
    "trunc(d, 'month')": ("date", computed(lambda d: d.replace(day=1), "d")),
    # texts
    "upper(s)": ("string", computed(str.upper, "s")),
    "lower(s)": ("string", computed(str.lower, "s")),
    "trim(s)": ("string", computed(lambda s: s.strip(" "), "s")),
    "ltrim(s)": ("string", computed(lambda s: s.lstrip(" "), "s")),
    "rtrim(s)": ("string", computed(lambda s: s.rstrip(" "), "s")),
    "initcap(s)": ("string", computed(lambda s: " ".join(w[:1].title() + w[1:].lower() for w in s.split(" ")), "s")),
    "reverse(s)": ("string", computed(lambda s: s[::-1], "s")),
    "length(s)": ("int", computed(len, "s")),
    "char_length(s)": ("int", computed(len, "s")),
    "octet_length(s)": ("int", computed(lambda s: len(s.encode()), "s")),
    "substring(s, 2, 3)": ("string", computed(lambda s: substring(s, 2, 3), "s")),
    "substr(s, k, 3)": ("string", computed(lambda s, k: substring(s, k, 3), "s", "k")),
    "left(s, k)": ("string", computed(lambda s, k: s[: max(k, 0)], "s", "k")),
    "right(s, k)": ("string", computed(lambda s, k: s[max(len(s) - k, 0) :] if k > 0 else "", "s", "k")),
    "lpad(s, 5, 'xy')": (
        "string",
        computed(lambda s: ("xyxyx"[: max(5 - len(s), 0)] + s)[:5] if len(s) < 5 else s[:5], "s"),
    ),
    "rpad(s, 5)": ("string", computed(lambda s: s.ljust(5)[:5], "s")),
    "concat(s, n, big)": ("string", computed(lambda s, n, b: f"{s}{n:f}{b}", "s", "n", "big")),
    "s || y": ("string", computed(lambda s, y: f"{s}{y:f}", "s", "y")),
    "concat_ws('-', s, big, y)": (
        "string",
        lambda row: "-".join(
            f"{v:f}" if isinstance(v, D) else str(v) for v in (row["s"], row["big"], row["y"]) if v is not None
        ),
    ),
    "replace(s, p, '_')": ("string", computed(lambda s, p: s.replace(p, "_") if p else s, "s", "p")),
    "translate(s, 'ab', 'x')": ("string", computed(lambda s: s.translate({97: "x", 98: None}), "s")),
    "split_part(s, '-', 2)": ("string", computed(lambda s: ([*s.split("-"), ""])[1] if "-" in s else "", "s")),
    "instr(s, p)": ("int", computed(lambda s, p: s.find(p) + 1, "s", "p")),
    "startswith(s, p)": ("boolean", computed(lambda s, p: s.startswith(p), "s", "p")),
    "endswith(s, p)": ("boolean", computed(lambda s, p: s.endswith(p), "s", "p")),
    "contains(s, p)": ("boolean", computed(lambda s, p: p in s, "s", "p")),
    "s LIKE '%-_'": ("boolean", computed(lambda s: len(s) > 1 and s[-2] == "-", "s")),
    "md5(s)": ("string", computed(lambda s: hashlib.md5(s.encode()).hexdigest(), "s")),
    "sha1(s)": ("string", computed(lambda s: hashlib.sha1(s.encode()).hexdigest(), "s")),
    "sha2(s, 256)": ("string", computed(lambda s: hashlib.sha256(s.encode()).hexdigest(), "s")),
    "crc32(s)": ("bigint", computed(lambda s: zlib.crc32(s.encode()), "s")),
    "hex(s)": ("string", computed(lambda s: s.encode().hex().upper(), "s")),
    "xxhash64(s) = xxhash64(s || '')": ("boolean", lambda row: True),
    "to_json(st)": (
        "string",
        computed(
            lambda st: (
                json.dumps({"a": 0, "b": 1}).replace(" ", "").replace("0", str(st["a"])).replace("1}", f"{st['b']:f}}}")
            ),
            "st",
        ),
    ),
    "get_json_object(to_json(st), '$.a')": ("string", computed(lambda st: str(st["a"]), "st")),
}


FROM_4_1 = {"CAST(t AS DECIMAL(20,6))"}
"""Spark 4.0 goes through a double, which has microseconds until the year 2255."""


def test_every_function_is_exact(spark: SparkSession) -> None:
    """`round` went through a double, and so did others; the type that the text says is Spark's."""
    cases = {text: case for text, case in CASES.items() if not (text in FROM_4_1 and spark.version.startswith("4.0."))}
    found = {text: read(text, COLUMNS) for text in cases}
    given = {row["id"]: row for row in rows()}
    frame = spark.createDataFrame([*given.values()], DDL)
    columns = [
        column
        for number, each in enumerate(found.values())
        for column in (F.expr(each.value).alias(f"v{number}"), F.expr(each.failed).alias(f"failed{number}"))
    ]
    made = frame.select("id", *columns)
    wrong = []
    for number, (text, (type_, _)) in enumerate(cases.items()):
        spark_type = made.schema[f"v{number}"].dataType.simpleString()
        told = found[text].number if found[text].kind == NUMBER else found[text].type
        if {spark_type, str(told or spark_type)} != {type_}:
            wrong.append(f"{text}: {type_} expected, {told} told, {spark_type} of Spark")
    # A collected time would be one of the machine's zone.
    values = [F.unix_micros(name) if type_ == "timestamp" else F.col(name) for name, type_ in made.dtypes]
    with localcontext(WIDE):
        for row in made.select(*(each.alias(name) for each, name in zip(values, made.columns, strict=True))).collect():
            for number, (text, (_, expected)) in enumerate(cases.items()):
                value = FAILED if row[f"failed{number}"] else row[f"v{number}"]
                exact = expected(given[row["id"]])
                if value != (micros(exact) if isinstance(exact, datetime) else exact):
                    wrong.append(f"{text} of {given[row['id']]}: {exact!r} expected, not {value!r}")
    assert not wrong, "\n".join(wrong[:40])


def test_every_function_is_looked_at() -> None:
    """A new one needs a case."""
    texts = " ".join(CASES)
    assert [name for name in FUNCTIONS if f"{name}(" not in texts] == []
