"""What the compatibility rules decide about schemas, and the ledger that remembers it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

from lakeingest import config
from lakeingest.config import PipelineConfig
from lakeingest.ingest import writer_schemas
from lakeingest.ingest.writer_schemas import WriterSchema
from lakeingest.schema import ddl, hidden, model, transforms, widened
from lakeingest.schema.compatibility.decision import Action, Decision, decide
from lakeingest.schema.compatibility.verdict import Mode, Verdict
from lakeingest.schema.compatibility.widening import misfit
from lakeingest.schema.ledger import Entry, SchemaLedger, Side
from lakeingest.schema.model import Schema
from lakeingest.schema.transforms import TransformError

TableColumns = tuple[ddl.Column, ...] | None
"""The columns that the table has; None where there is no table yet."""
UNUSABLE = "UNUSABLE_SCHEMA"
"""The verdict on a schema that no table can hold."""


class SchemaDecisions:
    """The schemas of one pipeline, as far as they are decided.

    Attributes:
        ledger: the ledger of schemas, as the next receipt bears it.
    """

    def __init__(self, config: PipelineConfig, ledger: SchemaLedger, *, follows: bool = True) -> None:
        """`follows`: whether the table and the ledger follow what is decided; see `decision`."""
        self.ledger = ledger
        self._config = config
        self._follows = follows

    def mode(self, side: Side) -> Mode:
        """Only the value's schema counts; the key's column takes whatever it can hold."""
        return self._config.compatibility if side == "value" else "NONE"

    def decide(self, writer_schemas: Iterable[WriterSchema], sequence: int, columns: TableColumns) -> None:
        """Take the writers' schemas in the order of their first records, as if each record were a batch of its own.

        A schema is decided once. So it does not matter where the batches are cut, and what is refused stays so until
        the file says something else of schemas, or a replay asks again.
        """
        for each in writer_schemas:
            if not (each.rowless or self._stands(each)):
                self.note(each, self.decision(each, columns), sequence)

    def _stands(self, writer_schema: WriterSchema) -> bool:
        """Whether a schema is decided, under the rules of the file as it is now."""
        entry = self._entry(writer_schema)
        if writer_schema.schema is None or entry is None:
            return entry is not None
        if entry.verdict == UNUSABLE:
            return False
        return (entry.rules, entry.version) == (self._rules(writer_schema.side), writer_schema.version)

    def _entry(self, writer_schema: WriterSchema) -> Entry | None:
        return self.ledger.decided(writer_schema.side, writer_schema.fingerprint, writer_schema.name)

    def _rules(self, side: Side) -> str:
        """What the file says of schemas, as a digest."""
        rules = [self.mode(side), self._config.widening, repr(self._config.steps), repr(self._config.partition)]
        return fingerprint(json.dumps(rules))[:16]

    def decision(self, writer_schema: WriterSchema, columns: TableColumns) -> Decision | None:
        """What the table makes of a writer's schema; None for one that no table can hold.

        Where the table does not follow, a schema that was refused is decided again: a replay may take its records by
        now. The fields that no column takes are rescued then.
        """
        entry = self._entry(writer_schema)
        if writer_schema.schema is None or entry is None or not self._stands(writer_schema):
            return self._decision(writer_schema, columns)
        current, table = (
            self.ledger.current.get(writer_schema.side),
            self.table(writer_schema.side, columns, [writer_schema.schema]),
        )
        verdict, action = Verdict(entry.verdict), cast("Action", entry.action)
        stood = Decision(verdict, action, (), current, entry.why, table, entry.rescued)
        if entry.action != "quarantine" or self._follows:
            return stood
        again = self._decision(writer_schema, columns)
        return again if again is not None and again.current == current else stood

    def _decision(self, writer_schema: WriterSchema, columns: TableColumns) -> Decision | None:
        schema, current, mode = (
            writer_schema.schema,
            self.ledger.current.get(writer_schema.side),
            self.mode(writer_schema.side),
        )
        if schema is None:
            return None
        if current is None and schema.version is None and writer_schema.id is not None and mode != "NONE":
            # Nothing could ever be compared with it.
            return Decision(Verdict.VERSION_REQUIRED, "quarantine", why="no version tells older from newer")
        evolving_columns = self._evolving_columns(columns) if writer_schema.side == "value" else None
        decision = decide(
            schema,
            current,
            mode,
            evolving_columns,
            self.table(writer_schema.side, columns, [schema]),
            grows=self._follows,
        )
        why = None
        if decision.action == "evolve" and writer_schema.side == "key":
            why = self._barred_key(decision)
        elif decision.action == "evolve":
            why = self.barred(decision, columns) or self._computed(writer_schema, decision)
        return Decision(Verdict.DIFFERENT_TYPE, "quarantine", decision.changes, current, why) if why else decision

    def table(self, side: Side, columns: TableColumns, schemas: Iterable[Schema]) -> Schema | None:
        """All columns of key or value that the ledger knows, and those of the table besides that one of the schemas has
        a field for: removed before the ledger knew of them, or made by somebody else.

        Of others nothing is written: they may have a default.
        """
        table = self.ledger.table(side)
        if table is None or table.type != "struct" or side == "key" or columns is None or self._config.steps:
            return table
        table_names = {column.name.lower() for column in table.fields}
        fields = [field for schema in schemas for field in schema.fields]
        names = {name.lower() for field in fields for name in (field.name, *field.aliases)} - table_names
        more_columns = [column for column in columns if column.name.lower() in names and model.knows(column.type)]
        return replace(table, fields=(*table.fields, *model.from_columns(more_columns).fields))

    def barred(self, decision: Decision, columns: TableColumns) -> str | None:
        """Why the table must not become what a decision says, although Delta could."""
        try:
            target_columns = self._columns_of(decision.table or decision.current)
        except TransformError as wrong:
            return str(wrong)
        why = misfit(columns, target_columns) if columns is not None and self._config.steps else None
        before = self._before(columns)
        return why or self._moved(target_columns, before) or self._grown(target_columns, before)

    def _computed(self, writer_schema: WriterSchema, decision: Decision) -> str | None:
        """Why a step would make other rows of records that came before, if these share a batch with this one.

        A schema of the pipeline file is there before the first record of a batch.
        """
        was, becomes = self.ledger.table("value"), decision.table or decision.current
        if writer_schema.id is None or was is None or becomes is None:
            return None
        return widened.barring(self._config.steps, model.value_columns(was), model.value_columns(becomes))

    def _barred_key(self, decision: Decision) -> str | None:
        """Why the steps cannot hide what they name of a key."""
        assert decision.table is not None
        try:
            hidden.key(self._config.steps, model.column_type(decision.table))
        except TransformError as wrong:
            return str(wrong)
        return None

    def _evolving_columns(self, columns: TableColumns) -> TableColumns:
        """The table's columns, if records have the same ones: what transforms make of a schema is held against them."""
        return None if self._config.steps else columns

    def _columns_of(self, schema: Schema | None) -> tuple[ddl.Column, ...]:
        return transforms.apply(self._config.steps, model.value_columns(schema)) if schema else ()

    def _before(self, columns: TableColumns) -> tuple[ddl.Column, ...]:
        """The table's columns as they are by now: other schemas of the batch may have made some."""
        ledger_columns = self._columns_of(self.ledger.table("value"))
        names = {column.name.lower() for column in ledger_columns}
        return (*ledger_columns, *(column for column in columns or () if column.name.lower() not in names))

    def _grown(self, target_columns: tuple[ddl.Column, ...], columns: tuple[ddl.Column, ...]) -> str | None:
        """A column would be wider, and the pipeline file refuses that."""
        if self._config.widening != "refuse":
            return None
        why = misfit(target_columns, columns, narrower=False)
        return f"{why.partition(': ')[0]} would become wider, and schema.widening is refuse" if why else None

    def _moved(self, target_columns: tuple[ddl.Column, ...], columns: tuple[ddl.Column, ...]) -> str | None:
        """Why the rows that are there would lie in wrong partitions: a field that they are cut by has another type."""
        for part in self._config.partition:
            path = None if isinstance(part, config.KafkaPartition) else part.field
            if path is None:
                continue
            was, now = ddl.find(columns, path), ddl.find(target_columns, path)
            if was and now and was.type != now.type:
                return f"{path} is {was.type} in the table, which is partitioned by it, and would become {now.type}"
        return None

    def note(self, writer_schema: WriterSchema, decision: Decision | None, sequence: int) -> None:
        """A new entry of the ledger.

        Args:
            decision: None for a schema that no table can hold.
        """
        accepted = decision is not None and decision.action != "quarantine"
        entry = Entry(
            side=writer_schema.side,
            id=writer_schema.id,
            subject=writer_schema.subject,
            version=writer_schema.version,
            name=writer_schema.name,
            fingerprint=writer_schema.fingerprint,
            verdict=str(decision.verdict) if decision else UNUSABLE,
            action=decision.action if decision else "quarantine",
            changes=tuple(change.text for change in decision.changes) if decision else (),
            sequence=sequence,
            first=writer_schema.first,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            rules=self._rules(writer_schema.side),
            why="" if decision is None or accepted else decision.why,
            rescued=decision.rescued if decision else (),
        )
        if decision is not None and accepted:
            self.ledger = self.ledger.after(entry, decision.current, decision.table)
        else:
            self.ledger = self.ledger.after(entry, None)

    def takes(self, schema: Schema, columns: TableColumns) -> bool:
        """Whether the table would become what a schema of the value says."""
        decision = decide(schema, self.ledger.current["value"], self.mode("value"), self._evolving_columns(columns))
        if self._config.steps and self.barred(decision, columns):
            return False
        return decision.action == "evolve" and not writer_schemas.unpartitionable(self._config, schema)

    def known_text(self, side: Side, text: str, plain: str) -> str:
        """What a schema that the pipeline file gives is known by: its text without comments.

        Args:
            text: with them: older versions of lakeingest knew it by that.
        """
        is_in_ledger = any(e.side == side and e.fingerprint == fingerprint(text) for e in self.ledger.entries)
        return text if is_in_ledger else plain

    def version(self, side: Side, text: str) -> int:
        """The version of a schema that the pipeline file gives as text: its own if it was there before."""
        entries = [e for e in self.ledger.entries if e.side == side]
        same = next((e.version for e in entries if e.fingerprint == fingerprint(text)), None)
        return same or self.next_version(side)

    def with_versions(self, new_schemas: Iterable[WriterSchema]) -> list[WriterSchema]:
        """Writers' schemas in the order of their first records. Those that came with the records, so that no registry
        counts them, are counted here: one more for each other text.
        """
        versioned, newest = list[WriterSchema](), dict[Side, int]()
        for each in new_schemas:
            if (
                each.version is None
                and each.reading
                and isinstance(self._config.decode.side(each.side), config.ConnectJsonFormat)
            ):
                newest[each.side] = newest.get(each.side, self.next_version(each.side) - 1) + 1
                versioned.append(replace(each, version=newest[each.side]))
            else:
                versioned.append(each)
        return versioned

    def next_version(self, side: Side) -> int:
        """One more than any that the ledger has of this side."""
        return 1 + max((e.version or 0 for e in self.ledger.entries if e.side == side), default=0)


def fingerprint(text: str) -> str:
    """What tells texts of schemas apart: SHA-256, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
