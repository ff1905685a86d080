"""Clashes of two pipelines' tables: no two in one place, but for those that pipelines may share. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakeingest.config import location
from lakeingest.config.pipeline import PipelineConfig

TABLE, QUARANTINE = "table", "quarantine"
_SHARED = frozenset({QUARANTINE, "gate.results", "contract.completeness.table", "the removals of table"})
"""Tables that may be one and the same for several pipelines: each row says whose it is."""


@dataclass(frozen=True)
class Clash:
    """Two tables in one place.

    Attributes:
        one, other: which table of each pipeline: as its option is called, without path or name.
        text: which they are, and where.
        cure: what to do about it.
    """

    one: str
    other: str
    text: str
    cure: str


def clashes(one: PipelineConfig, other: PipelineConfig) -> Iterator[Clash]:
    """The tables of one pipeline that are tables of another one, or lie within each other.

    Two main tables are told too: pipelines of different topics may write one, each in a process of its own.
    """
    for table, place in _places(one):
        for other_table, other_place in _places(other):
            if not location.one_place(place, other_place) or (
                table == other_table and table in _SHARED and _same(place, other_place)
            ):
                continue
            yield Clash(
                table,
                other_table,
                f"{table} of pipeline {one.name!r} ({place}) and {other_table} of {other.name!r} ({other_place}) "
                "are the same, or one lies within the other",
                "give one of them another place, that which has no records yet; of topics that one pattern matches: "
                "let the pattern leave one out, as in '(?!orders_quarantine$)orders.*', or, for new tables, write "
                "quarantine.path with {topic} in a folder of its own, as in s3a://lake/refused/{topic}",
            )


def shares_table(clash: Clash, one: PipelineConfig, other: PipelineConfig) -> bool:
    """Whether the two are one main table."""
    return clash.one == clash.other == TABLE and _same(one.table.identifier, other.table.identifier)


def _same(one: str, other: str) -> bool:
    return location.same_table(one, other) if location.is_path(one) else location.one_place(one, other)


def _places(config: PipelineConfig) -> Iterator[tuple[str, str]]:
    """Each table's option, with its path, and with its name."""
    for role, table in ((TABLE, config.table), (QUARANTINE, config.quarantine)):
        yield from ((role, place) for place in (table.path, table.name) if place)
    yield "the removals of table", config.removals
    if config.deletes:
        yield "the deletes of table", config.deletes
    if config.gate is not None:
        yield "gate.results", config.results
    if config.contract is not None and config.contract.completeness is not None:
        yield "contract.completeness.table", config.completeness
