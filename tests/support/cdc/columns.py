"""A column of every common type, with a value and its extremes, as SQL expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TypedColumn:
    """A column of a type.

    Attributes:
        kind: the type, as the database's DDL has it.
        values: a usual value, the smallest and the largest, or two others where a type has neither.
    """

    name: str
    kind: str
    values: tuple[str, str, str]


POSTGRES = tuple(
    TypedColumn(name, kind, values)
    for name, kind, values in [
        ("c_smallint", "smallint", ("42", "-32768", "32767")),
        ("c_int", "int", ("42", "-2147483648", "2147483647")),
        ("c_bigint", "bigint", ("42", "-9223372036854775808", "9223372036854775807")),
        ("c_real", "real", ("1.5", "-3.4028235e38", "3.4028235e38")),
        ("c_double", "double precision", ("0.1", "-1.7976931348623157e308", "5e-324")),
        ("c_numeric_2", "numeric(10,2)", ("123.40", "-99999999.99", "99999999.99")),
        ("c_numeric_0", "numeric(5)", ("123", "-99999", "99999")),
        ("c_numeric_wide", "numeric(38,18)", ("0.1", "-99999999999999999999.999999999999999999", "0")),
        ("c_numeric", "numeric", ("3.14159", "-123456789012345678901234567890.000000001", "1e20")),
        ("c_money", "money", ("'1234.56'", "'-92233720368547758.08'", "'92233720368547758.07'")),
        ("c_bool", "boolean", ("true", "false", "true")),
        ("c_text", "text", ("'text, \"quoted\" é 😀'", "''", "'a\nb\tc\\d'")),
        ("c_varchar", "varchar(20)", ("'varchar'", "''", "'12345678901234567890'")),
        ("c_char", "char(5)", ("'ab'", "''", "'abcde'")),
        ("c_bytea", "bytea", (r"'\x00ff10'", r"'\x'", r"'\xdeadbeef'")),
        ("c_date", "date", ("'2024-02-29'", "'0001-01-01'", "'9999-12-31'")),
        ("c_time_0", "time(0)", ("'12:34:56'", "'00:00:00'", "'23:59:59'")),
        ("c_time_3", "time(3)", ("'12:34:56.789'", "'00:00:00'", "'23:59:59.999'")),
        ("c_time_6", "time", ("'12:34:56.789012'", "'00:00:00'", "'23:59:59.999999'")),
        ("c_timetz", "timetz", ("'12:34:56.789012+05:30'", "'00:00:00+14'", "'23:59:59.999999-12'")),
        *(
            (f"c_timestamp_{digits}", f"timestamp({digits})", ("'2024-02-29 12:34:56.789012'", low, high))
            for digits in range(7)
            for low, high in [("'0001-01-01 00:00:00'", "'9999-12-31 23:59:59'")]
        ),
        (
            "c_timestamptz",
            "timestamptz",
            ("'2024-02-29 12:34:56.789012+01'", "'0001-01-01 00:00:00+00'", "'9999-12-31'"),
        ),
        (
            "c_timestamptz_3",
            "timestamptz(3)",
            ("'2024-02-29 12:34:56.700+01'", "'1969-12-31 23:59:59.5Z'", "'9999-12-31'"),
        ),
        ("c_interval", "interval", ("'1 year 2 mons 3 days 04:05:06.789012'", "'-178000000 years'", "'1 microsecond'")),
        ("c_uuid", "uuid", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", f"'{'0' * 32}'", f"'{'f' * 32}'")),
        ("c_json", "json", ("""'{"b": 1.50,  "a": [1, null]}'""", "'null'", "'\"text\"'")),
        ("c_jsonb", "jsonb", ("""'{"b": 1.50,  "a": [1, null]}'""", "'null'", "'[]'")),
        ("c_xml", "xml", ("'<a b=\"1\">text</a>'", "'<a/>'", "'text'")),
        ("c_inet", "inet", ("'192.168.0.1/24'", "'0.0.0.0'", "'2001:db8::1'")),
        ("c_cidr", "cidr", ("'192.168.0.0/24'", "'0.0.0.0/0'", "'2001:db8::/32'")),
        ("c_macaddr", "macaddr", ("'08:00:2b:01:02:03'", "'00:00:00:00:00:00'", "'ff:ff:ff:ff:ff:ff'")),
        ("c_bit_1", "bit(1)", ("B'1'", "B'0'", "B'1'")),
        ("c_bit_8", "bit(8)", ("B'00000101'", "B'00000000'", "B'11111111'")),
        ("c_varbit", "varbit(20)", ("B'101'", "B''", "B'11110000111100001111'")),
        ("c_ints", "int[]", ("'{1,NULL,3}'", "'{}'", "'{2147483647}'")),
        ("c_texts", "text[]", ("""'{a,"b, c",NULL,"NULL"}'""", "'{}'", "'{\"\"}'")),
        ("c_numerics", "numeric(10,2)[]", ("'{1.50,NULL}'", "'{}'", "'{99999999.99}'")),
        ("c_timestamptzs", "timestamptz[]", ("'{2024-02-29 12:34:56.789012+01}'", "'{}'", "'{NULL}'")),
        ("c_matrix", "int[][]", ("'{{1,2},{3,4}}'", "'{}'", "NULL")),
        ("c_hstore", "hstore", ("'a=>1, b=>NULL'", "''", '\'"x y"=>"1,2"\'')),
        ("c_point", "point", ("'(1.5,-2)'", "'(0,0)'", "'(1e308,-1e308)'")),
        ("c_int4range", "int4range", ("'[1,10)'", "'empty'", "'(,)'")),
        (
            "c_tstzrange",
            "tstzrange",
            ("'[2024-01-01 00:00+00,2024-02-01 00:00+00)'", "'empty'", "'(,2024-01-01 00:00+00]'"),
        ),
        ("c_enum", "mood", ("'ok'", "'sad'", "'so, so'")),
        ("c_enums", "mood[]", ("'{ok,sad}'", "'{}'", "'{\"so, so\"}'")),
        ("c_citext", "citext", ("'Text'", "''", "'TEXT'")),
        ("c_ltree", "ltree", ("'top.science'", "''", "'top'")),
        ("c_domain", "price", ("12.34", "0", "999999.99")),
        ("c_tsvector", "tsvector", ("'a fat cat'", "''", "'cat:1'")),
        # Types that Debezium does not know.
        ("c_box", "box", ("'(1,1),(0,0)'", "'(0,0),(0,0)'", "'(2,2),(1,1)'")),
    ]
)

_MARIADB_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}

MARIADB = tuple(
    TypedColumn(name, kind, values)
    for name, kind, values in [
        *(
            (f"c_{kind}", kind, ("42", str(-(1 << bits - 1)), str((1 << bits - 1) - 1)))
            for kind, bits in _MARIADB_INTEGERS.items()
        ),
        *(
            (f"c_{kind}_unsigned", f"{kind} unsigned", ("42", "0", str((1 << bits) - 1)))
            for kind, bits in _MARIADB_INTEGERS.items()
        ),
        ("c_zerofill", "int(8) unsigned zerofill", ("42", "0", "4294967295")),
        ("c_boolean", "boolean", ("true", "false", "127")),
        ("c_decimal_2", "decimal(10,2)", ("123.40", "-99999999.99", "99999999.99")),
        ("c_decimal_0", "decimal(10)", ("123", "-9999999999", "9999999999")),
        ("c_decimal_wide", "decimal(65,30)", ("0.1", f"-{'9' * 35}.{'9' * 30}", "0")),
        ("c_float", "float", ("1.5", "-3.40282e38", "3.40282e38")),
        ("c_float_3", "float(7,3)", ("1.5", "-9999.999", "9999.999")),
        ("c_double", "double", ("0.1", "-1.7976931348623157e308", "2.2250738585072014e-308")),
        ("c_bit_1", "bit(1)", ("b'1'", "b'0'", "b'1'")),
        ("c_bit_8", "bit(8)", ("b'101'", "b'0'", "b'11111111'")),
        ("c_bit_12", "bit(12)", ("b'101'", "b'0'", "b'111111111111'")),
        ("c_char", "char(5)", ("'ab'", "''", "'abcde'")),
        ("c_varchar", "varchar(20)", ("'é 😀 \"q\"'", "''", "'12345678901234567890'")),
        ("c_latin1", "varchar(20) character set latin1", ("'é'", "''", "'ü'")),
        ("c_text", "text", ("'text'", "''", "'a\\nb\\tc'")),
        ("c_longtext", "longtext", ("'text'", "''", "'x'")),
        ("c_binary", "binary(4)", ("x'00ff'", "x''", "x'deadbeef'")),
        ("c_varbinary", "varbinary(10)", ("x'00ff'", "x''", "x'deadbeef'")),
        ("c_blob", "blob", ("x'00ff10'", "x''", "x'deadbeef'")),
        ("c_date", "date", ("'2024-02-29'", "'1000-01-01'", "'9999-12-31'")),
        ("c_time_0", "time", ("'12:34:56'", "'-838:59:59'", "'838:59:59'")),
        ("c_time_6", "time(6)", ("'12:34:56.789012'", "'-838:59:59.999999'", "'838:59:59.999999'")),
        ("c_datetime_0", "datetime", ("'2024-02-29 12:34:56'", "'1000-01-01'", "'9999-12-31 23:59:59'")),
        ("c_datetime_3", "datetime(3)", ("'2024-02-29 12:34:56.789'", "'1000-01-01'", "'9999-12-31 23:59:59.999'")),
        (
            "c_datetime_6",
            "datetime(6)",
            ("'2024-02-29 12:34:56.789012'", "'1000-01-01'", "'9999-12-31 23:59:59.999999'"),
        ),
        ("c_timestamp_0", "timestamp", ("'2024-02-29 12:34:56'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'")),
        (
            "c_timestamp_6",
            "timestamp(6)",
            ("'2024-02-29 12:34:56.789012'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999999'"),
        ),
        ("c_year", "year", ("2024", "1901", "2155")),
        ("c_enum", "enum('a','b','c d')", ("'b'", "'a'", "'c d'")),
        ("c_set", "set('x','y','z')", ("'x,z'", "''", "'x,y,z'")),
        ("c_json", "json", ("""'{"b": 1.50,  "a": [1, null]}'""", "'null'", "'[]'")),
        ("c_point", "point", ("point(1.5, -2)", "point(0, 0)", "point(1e308, -1e308)")),
        ("c_geometry", "geometry", ("st_geomfromtext('LINESTRING(0 0,1 1)', 4326)", "point(0, 0)", "point(1, 1)")),
    ]
)


def definition(columns: Sequence[TypedColumn]) -> str:
    """The columns as CREATE TABLE has them."""
    return ", ".join(f"{each.name} {each.kind} NULL" for each in columns)


def inserts(columns: Sequence[TypedColumn], start: int) -> Iterator[str]:
    """Four rows into the table `everything`: usual values, the smallest, the largest, and nulls."""
    names = ", ".join(["id", *(each.name for each in columns)])
    rows = [[each.values[at] for each in columns] for at in range(3)] + [["NULL"] * len(columns)]
    for at, row in enumerate(rows):
        yield f"INSERT INTO everything ({names}) VALUES ({', '.join([str(start + at), *row])})"
