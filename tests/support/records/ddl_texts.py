"""Declarations of columns, which Spark's parser and ours have to read alike."""

from __future__ import annotations

TEXTS = [
    "a INT",
    "a INTEGER, b BIGINT, c LONG, d SMALLINT, e SHORT, f TINYINT, g BYTE",
    "a FLOAT, b REAL, c DOUBLE, d DECIMAL, e DEC(5), f NUMERIC(10,2)",
    "a STRING, b BINARY, c BOOLEAN, d DATE, e TIMESTAMP, f TIMESTAMP_LTZ, g TIMESTAMP_NTZ",
    "a INT NOT NULL, b STRING COMMENT 'of \"b\"', c DATE NOT NULL COMMENT 'day'",
    "a ARRAY<INT>, b ARRAY<ARRAY<STRING>>, c MAP<STRING, ARRAY<DOUBLE>>",
    "a STRUCT<b: INT, c: STRING NOT NULL COMMENT 'x'> NOT NULL, d STRUCT<e INT, f STRUCT<g: DATE>>",
    "`order-id` int, date date, year int, `back``tick` string",
    "`<` STRING, `0` INT, `>` DATE, s STRUCT<`>`: INT, `:`: INT>, c INT COMMENT ',', d INT COMMENT '<'",
    "a MAP<STRING, STRUCT<x: DECIMAL(38,18), y: ARRAY<TIMESTAMP>>>",
]
