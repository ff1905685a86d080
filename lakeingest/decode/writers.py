"""Records that bring their schema: told apart by their first bytes, read with their writer's schema, and projected.

Before the payload stands a header that names its schema, or a header of the record does (`framing`): the reference. A
batch may hold any number of writers' schemas: each is read in the same pass, by a branch of its own, into
the same columns. A record with a header that no branch knows makes a strict plan fail with `record.UNKNOWN_SCHEMA`: the
schema is fetched and the batch planned again. A plan made after looking at all of the batch's headers refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakeingest.decode import compressed, projection, rowless, sniff
from lakeingest.decode.framing import Confluent, Framing, begins, header_of, size
from lakeingest.decode.projection import Parsed
from lakeingest.decode.rowless import RowlessSchema
from lakeingest.record import (
    RESCUED,
    SCHEMA_ID,
    UNKNOWN_SCHEMA,
    Refusal,
    diagnosis,
)
from lakeingest.schema.formats.wire import RECORD_HEADER
from lakeingest.schema.ledger import SchemaId, Side
from lakeingest.schema.model import Schema

_ALL = 2**31 - 1


class PayloadReader(Protocol):
    """Reads payloads of one schema. `parsed` is what `parse` gives, or the columns that the last of `further` gives."""

    def parse(self, payload: Column) -> Column:
        """BINARY → an intermediate value, whatever the reader likes, so that a record is parsed once.

        The payload is null for records of other writers, and so is the value then.
        """

    @property
    def further(self) -> Sequence[Callable[[Any], Mapping[str, Column]]]:
        """What is made of the intermediate value before it is looked at, step by step: each gives columns by name, and
        the next one sees these alone. They are a stage of the frame, so that Spark computes each once; and they are
        columns, not one struct, as some rules of Spark write what a column is made of into whatever asks for it.
        """
        return ()

    def fault(self, parsed: Any) -> Column | None:
        """STRING: what is wrong, as far as the intermediate value says it already; null if nothing is."""
        return None

    def broken(self, parsed: Any) -> Column:
        """BOOLEAN, never null: whether the payload is none of the schema."""

    def value(self, parsed: Any) -> Parsed:
        """The value in the schema's own types, or its fields; only looked at where it is not broken."""

    def rowless(self, parsed: Any) -> Mapping[str, Column]:
        """What a record may be that holds no row, and is dropped → whether it is that: BOOLEAN."""
        return {}

    def why(self, payload: Column, *, withheld: bool = False) -> Column | None:
        """STRING: what exactly is wrong with a payload that is none of the schema; null if not known.

        Args:
            withheld: whether it has to be told without any value of the record.
        """

    def rescued(self, parsed: Any, dropped: tuple[str, ...], names: Schema) -> Column | None:
        """STRING, a JSON object of the fields that no column takes, null where there are none.

        Args:
            dropped: the fields of the schema that projection drops. None may be answered where there are none.
            names: see `SchemaBranch`.
        """


@dataclass(frozen=True)
class SchemaBranch:
    """A schema that records were written with, and how they are read.

    Attributes:
        header: the bytes that its records begin with, or those of a header of the record; none for plain Avro.
        id: the registry's id, if it has one.
        label: what messages call it.
        names: the schema under the names of the columns that take its fields (see `naming.named`). A field whose name
            is no column's is rescued.
    """

    header: bytes
    id: SchemaId | None
    label: str
    schema: Schema
    reader: PayloadReader
    names: Schema


@dataclass(frozen=True)
class RefusedSchema:
    """A schema whose records are refused: by the verdict of compatibility, or because nothing can read them.

    Attributes:
        header: see `SchemaBranch`.
    """

    header: bytes
    reason: str
    message: str


AnyBranch: TypeAlias = SchemaBranch | RefusedSchema | RowlessSchema


@dataclass(frozen=True)
class SchemaBranches:
    """One side of a batch's records: who wrote them, and which columns take their fields.

    Attributes:
        branches: what becomes of the records of each schema, by the header that they begin with. Of two headers that
            begin alike the longer one stands first.
        framing: the header that records begin with; None for plain Avro, which has none.
        strict: whether an unknown header stops the batch; else its record is refused.
        format: what records without a header are.
    """

    branches: tuple[AnyBranch, ...] = ()
    framing: Framing | None = field(default_factory=Confluent)
    strict: bool = True
    format: str = "avro"


@dataclass(frozen=True)
class Read:
    """The result of `read`: stages of columns to be added to the frame in order, columns, refusals; and `rowless.tests`
    of records that hold no row.
    """

    stages: tuple[dict[str, Column], ...]
    columns: dict[str, Column]
    refusals: tuple[Refusal, ...]
    rowless: Mapping[str, Column]


def read(side: Side, raw: Column, writers: SchemaBranches, target: T.StructType, most: int) -> Read:
    """The columns of `target`, and why a record has none.

    Args:
        side: key or value; the value has the columns _schema_id and _rescued besides.
        raw: BINARY, the record's bytes; a null one is refused by nobody here, and its columns are null.
        target: the table's columns for this side.
        most: bytes that a payload may have.
    """
    framing = writers.framing
    which = F.col(f"_{side}_writer")
    usable = {i: w for i, w in enumerate(writers.branches) if isinstance(w, SchemaBranch)}
    unpacked = compressed.plain_records(side, raw, _packed(writers), most)
    plain = unpacked.record
    by_header = F.col(f"_{side}_schema_header") if framing else F.lit(None).cast("binary")
    payloads = {i: _payload(plain, by_header, w) for i, w in usable.items()}
    parsed_stages, parsed = _parsed(side, usable, {i: F.when(which == i, each) for i, each in payloads.items()})
    stages = (
        {f"_{side}_schema_header": framing.apart(side)} if framing else {},
        *unpacked.stages,
        {f"_{side}_writer": _which(plain, by_header, writers)},
        *parsed_stages,
    )
    values = {i: usable[i].reader.value(each) for i, each in parsed.items()}
    columns = {f.name: _case(which, _members(side, f, values, usable), f.dataType) for f in target}
    if side == "value":
        ids = {i: F.lit(w.id) for i, w in usable.items() if w.id is not None}
        if framing and framing.id_type:
            columns = {SCHEMA_ID: _case(which, ids, framing.id_type), **columns}
        columns[RESCUED] = _case(which, _rescued(parsed, usable, target), T.StringType())
    broken = F.lit(False)
    format = framing.format if framing else writers.format
    for i, each in parsed.items():
        broken = broken | ((which == i) & usable[i].reader.broken(each))
    misfit = Refusal(
        side,
        _true(broken),
        lambda: _misfit(which, usable, payloads, parsed),
        withheld=lambda: _misfit(which, usable, payloads, parsed, withheld=True),
    )
    refusals = (
        *(_headers(plain, by_header, which, side, framing) if framing else ()),
        *_verdicts(which, writers),
        *unpacked.refusals,
        sniff.with_hint(misfit, F.when(by_header.isNull(), raw), format),
    )
    tests = rowless.tests(which, writers.branches, parsed)
    return Read(tuple(stage for stage in stages if stage), columns, refusals, tests)


def _parsed(
    side: Side, usable: Mapping[int, SchemaBranch], payloads: Mapping[int, Column]
) -> tuple[list[dict[str, Column]], dict[int, Parsed]]:
    """The stages of the frame in which the payloads are parsed: all branches' first steps together, and so on; and what
    each branch has behind them.
    """
    stages, parsed = list[dict[str, Column]](), dict[int, Parsed]()
    for i, branch in usable.items():
        name = f"_{side}_parsed_{i}"
        steps = [{name: branch.reader.parse(payloads[i])}]
        parsed[i] = F.col(name)
        for n, step in enumerate(branch.reader.further):
            made_of = step(parsed[i])
            steps.append({f"{name}_{n}_{key}": column for key, column in made_of.items()})
            parsed[i] = {key: F.col(f"{name}_{n}_{key}") for key in made_of}
        stages += ({} for _ in range(len(steps) - len(stages)))
        for stage, columns in zip(stages, steps, strict=False):
            stage.update(columns)
    return stages, parsed


def _packed(writers: SchemaBranches) -> list[bytes]:
    """The headers, without Protobuf's indexes, of records whose payload is compressed."""
    framing = writers.framing
    if framing is None:
        return []
    heads = {
        w.header[: size(framing, w.header)]
        for w in writers.branches
        if framing.compressed(w.header) and (isinstance(w, SchemaBranch) or len(w.header) > size(framing, w.header))
    }
    return sorted(heads)


def _which(raw: Column, by_header: Column, writers: SchemaBranches) -> Column:
    """INT: the position of the record's writer among the known ones; null where there is none."""
    framing, unknown = writers.framing, F.lit(None).cast("int")
    if framing is None:
        return F.when(raw.isNotNull(), F.lit(0))
    reference = F.coalesce(by_header, raw)
    if writers.strict:
        unknown_id = F.concat(F.lit(UNKNOWN_SCHEMA), F.hex(header_of(framing, reference)))
        unknown = F.when(begins(framing, reference), F.raise_error(unknown_id)).cast("int")
    null = (raw.isNull(), F.lit(None).cast("int"))
    branches = [(reference.startswith(F.lit(bytearray(w.header))), F.lit(i)) for i, w in enumerate(writers.branches)]
    return _cases([null, *branches], unknown)


def _members(
    side: Side, f: T.StructField, values: Mapping[int, Parsed], usable: Mapping[int, SchemaBranch]
) -> dict[int, Column]:
    # A key is one column, whatever it is.
    projected = projection.member if side == "value" else _whole
    return {i: projected(value, f, usable[i].schema, usable[i].names) for i, value in values.items()}


def _whole(value: Parsed, column: T.StructField, source: Schema, names: Schema) -> Column:
    if isinstance(value, Mapping):
        value = F.struct(*(each.alias(name) for name, each in value.items()))
    return projection.project(value, source, names, column.dataType)


def _rescued(
    parsed: Mapping[int, Parsed], usable: Mapping[int, SchemaBranch], target: T.StructType
) -> dict[int, Column]:
    rescued = {}
    for i, each in parsed.items():
        dropped = projection.dropped(usable[i].schema, usable[i].names, target)
        text = usable[i].reader.rescued(each, dropped, usable[i].names)
        if text is not None:
            rescued[i] = text
    return rescued


def _headers(raw: Column, by_header: Column, which: Column, side: Side, framing: Framing) -> tuple[Refusal, ...]:
    reference = F.coalesce(by_header, raw)

    def strange() -> Column:
        start = F.concat(F.octet_length(raw).cast("string"), F.lit(" bytes, 0x"), F.hex(F.substring(raw, 1, 8)))
        return diagnosis("NO_SCHEMA_ID", F.concat(start, F.lit("…: "), framing.strange(raw)))

    def none() -> Column:
        size = F.octet_length(raw).cast("string")
        return diagnosis("NO_SCHEMA_ID", F.concat(size, F.lit(" bytes, which do not begin with a schema's id")))

    def unknown() -> Column:
        return diagnosis("UNKNOWN_SCHEMA_ID", framing.unknown(reference))

    def strange_header(value: Column) -> Column:
        text = F.concat(F.lit(f"the record's header {RECORD_HEADER[side]} has "), value)
        return diagnosis("SCHEMA_ID_IN_HEADER", F.concat(text, F.lit(f", {framing.strange_record_header}")))

    def of_nobody(test: Column) -> Column:
        # Behind a THEN, so that Spark does not look at the headers of all others too.
        return F.when(which.isNull(), raw.isNotNull() & test).otherwise(False)

    size = F.concat(F.octet_length(by_header).cast("string"), F.lit(" bytes"))
    value = F.concat(size, F.lit(": 0x"), F.hex(F.substring(by_header, 1, 17)))
    framed, elsewhere, bare = _true(begins(framing, reference)), by_header.isNotNull(), F.when(by_header.isNull(), raw)
    unread = Refusal(
        side,
        of_nobody(elsewhere & ~framed),
        lambda: strange_header(value),
        withheld=lambda: strange_header(size),
    )
    return (
        unread,
        sniff.with_hint(
            Refusal(side, of_nobody(~elsewhere & ~framed), strange, withheld=none),
            raw,
            framing.format,
            sniff.header_hint(side),
        ),
        sniff.with_hint(Refusal(side, of_nobody(framed), unknown, withheld=unknown), bare, framing.format),
    )


def _verdicts(which: Column, writers: SchemaBranches) -> tuple[Refusal, ...]:
    refused = {i: w for i, w in enumerate(writers.branches) if isinstance(w, RefusedSchema)}
    if not refused:
        return ()

    def why() -> Column:
        return _case(which, {i: diagnosis(w.reason, F.lit(w.message)) for i, w in refused.items()}, None)

    return (Refusal("schema", _true(which.isin(*refused)), why, withheld=why),)


def _misfit(
    which: Column,
    usable: Mapping[int, SchemaBranch],
    payloads: Mapping[int, Column],
    parsed: Mapping[int, Parsed],
    *,
    withheld: bool = False,
) -> Column:
    labels = _case(which, {i: F.lit(w.label) for i, w in usable.items()}, T.StringType())
    sizes = {i: F.octet_length(payload) for i, payload in payloads.items()}
    begins = _case(which, {i: F.hex(F.substring(payloads[i], 1, 32)) for i in usable}, T.StringType())
    whys = {i: w.reader.why(F.when(which == i, payloads[i]), withheld=withheld) for i, w in usable.items()}
    faults = {i: w.reader.fault(parsed[i]) for i, w in usable.items()}
    reasons = ({i: each for i, each in by.items() if each is not None} for by in (faults, whys))
    reason = F.coalesce(*(_case(which, each, T.StringType()) for each in reasons))
    message = F.coalesce(reason, F.lit("cut short, bytes too many, or written with another schema"))
    if not withheld:
        message = F.concat(message, F.lit("; begins with 0x"), begins)
    size = _case(which, sizes, T.IntegerType()).cast("string")
    return diagnosis(
        "PAYLOAD_MISMATCH",
        F.concat(
            F.lit("a payload of "),
            size,
            F.lit(" bytes that is none of "),
            labels,
            F.lit(": "),
            message,
        ),
    )


def _payload(raw: Column, by_header: Column, writer: SchemaBranch) -> Column:
    if not writer.header:
        return raw
    return F.when(by_header.isNull(), F.substring(raw, len(writer.header) + 1, _ALL)).otherwise(raw)


def _case(which: Column, branches: Mapping[int, Column], kind: T.DataType | None) -> Column:
    return _cases([(which == i, value) for i, value in branches.items()], F.lit(None).cast(kind) if kind else None)


def _cases(branches: list[tuple[Column, Column]], otherwise: Column | None) -> Column:
    if not branches:
        assert otherwise is not None
        return otherwise
    first, *more = branches
    case = F.when(*first)
    for test, value in more:
        case = case.when(test, value)
    return case if otherwise is None else case.otherwise(otherwise)


def _true(test: Column) -> Column:
    return F.coalesce(test, F.lit(False))
