"""The reason why an Avro payload is none of its schema: the field, and its problem. Executors run it, alone.

Asked of refused records alone: what reads payloads says only that one cannot be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakeingest.schema.formats.avro_walk import AvroFault, AvroWalk, TooLargeError, named_types

_MOST = 100_000
"""Values that are looked at."""


def fault(text: str, references: Sequence[str] = (), *, withheld: bool = False) -> Callable[[bytes | None], str | None]:
    """A payload → what is wrong with it; None where that is not found, and for None.

    Args:
        text: the schema, as JSON.
        references: the texts that it refers to, dependencies first.
        withheld: whether it is told without any value of the payload.
    """
    trees = [json.loads(each) for each in (*references, text)]
    types = named_types(trees)

    def say(payload: bytes | None) -> str | None:
        if payload is None:
            return None
        try:
            return _look(trees[-1], bytes(payload), types, withheld=withheld)
        except (TooLargeError, ValueError, KeyError, TypeError, RecursionError):
            # A schema that is read here in another way than there: nothing is said rather than something wrong.
            return None

    return say


def _look(tree: Any, payload: bytes, types: Mapping[str, Any], *, withheld: bool) -> str | None:
    walk = AvroWalk(payload, types, _MOST)
    try:
        walk.value(tree, "", "", 0)
    except AvroFault as wrong:
        return f"{wrong.place} does not fit its type, or the payload is cut short" if withheld else str(wrong)
    rest = len(payload) - walk.at
    return f"{rest:,} bytes too many, or written with another schema" if rest else None
