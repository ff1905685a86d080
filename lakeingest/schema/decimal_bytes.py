"""`decimal_from_bytes` of an expression: decimals as Kafka Connect and Debezium write them. Pure."""

from __future__ import annotations

import re
from typing import Any

from lakeingest.schema import ddl, functions
from lakeingest.schema.expression_parts import Expression, ExpressionError, short_text, sql_text, tried
from lakeingest.schema.functions import BYTES, NULL, NUMBER, TEXT


def read(node: Any, read_part: Any) -> Expression:
    """decimal_from_bytes(column, scale[, precision]): a DECIMAL; it fails where no such number is in the bytes.

    Args:
        node: the call, as sqlglot has it.
        read_part: makes an expression of an argument.

    Raises:
        ExpressionError: its arguments are others.
    """
    parts: list[Expression] = [read_part(each) for each in node.expressions]
    sizes = [part.value for part in parts[1:]]
    if not (1 <= len(sizes) <= 2 and all(re.fullmatch(r"\d{1,2}", size) for size in sizes)):
        raise ExpressionError(f"{sql_text(node)}: write the scale as a number, as in decimal_from_bytes(amount, 2)")
    scale, precision = int(sizes[0]), int(sizes[1]) if len(sizes) > 1 else 38
    if not 1 <= precision <= 38 or scale > precision:
        raise ExpressionError(f"{sql_text(node)}: a DECIMAL has 1 to 38 digits, and no more behind the point")
    part = parts[0]
    if part.kind not in (None, NULL, BYTES, TEXT):
        raise ExpressionError(f"{sql_text(node)}: {short_text(part)} is a {part.kind}; write bytes, or a base64 text")
    value = functions.written(_template(part.kind, precision, scale), part.value)
    return tried(value, NUMBER, part, exact=ddl.Atomic(f"decimal({precision},{scale})"))


def _template(kind: str | None, precision: int, scale: int) -> str:
    """Null where the bytes, or those of a text in base64, are none, or hold more digits.

    By the hexadecimal digits without those that only repeat the sign; those of a negative number are turned round, so
    that no step is larger than the number.
    """
    raw = "try_to_binary({0}, 'base64')" if kind == TEXT else "{0}"
    hexadecimal = f"regexp_replace(hex({raw}), '^(00)+(?=[0-7])|^(FF)+(?=[89A-F])', '')"
    positive = "CASE WHEN h >= '8' THEN translate(h, '0123456789ABCDEF', 'FEDCBA9876543210') ELSE h END"
    high, low = (f"CAST(conv({half}(p, 16), 16, 10) AS DECIMAL(20,0))" for half in ("left", "right"))
    number = f"try_add(try_multiply({high}, CAST(18446744073709551616 AS DECIMAL(20,0))), {low})"
    number = f"try_add({number}, CASE WHEN h >= '8' THEN 1 ELSE 0 END)"
    signed = f"concat(CASE WHEN h >= '8' THEN '-' ELSE '' END, CAST({number} AS STRING), 'E-{scale}')"
    cast = (
        f"get(transform(array(lpad({positive}, 32, '0')), p -> try_cast({signed} AS DECIMAL({precision},{scale}))), 0)"
    )
    return f"get(transform(array({hexadecimal}), h -> CASE WHEN length(h) BETWEEN 2 AND 32 THEN {cast} END), 0)"
