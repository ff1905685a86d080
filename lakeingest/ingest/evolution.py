"""How a table follows the schemas of its records: which writers are known, what is current, what a batch becomes.

A running pipeline knows the writers that it has met. A batch that meets another one fails before its commit; then all
the batch's headers are looked at, the new schemas are fetched, the compatibility rules decide in the order of their
first records, and the batch is planned anew. What was decided rides in the batch's own receipt: the table's new
columns, the rows and the ledger of schemas are one commit, so a writer that is killed anywhere decides the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from lakeingest import config
from lakeingest.config import PipelineConfig, brings_schema, file, uses_registry
from lakeingest.decode import Shape, framing, inferred
from lakeingest.decode.early import TypeSegment, columns_of
from lakeingest.decode.order import TopicPartition
from lakeingest.decode.readers import SchemaRules, read
from lakeingest.decode.rowless import RowlessSchema
from lakeingest.decode.writers import AnyBranch, RefusedSchema, SchemaBranch, SchemaBranches
from lakeingest.errors import TableMismatch
from lakeingest.ingest import shape, writer_schemas
from lakeingest.ingest.preflight import NEW_TABLE
from lakeingest.ingest.schema_decisions import UNUSABLE, SchemaDecisions, TableColumns, fingerprint
from lakeingest.ingest.writer_schemas import SIDES, AnyRegistry, WriterSchema
from lakeingest.record import KEY
from lakeingest.schema import ddl, hidden, model, transforms
from lakeingest.schema.compatibility import declared, naming
from lakeingest.schema.compatibility.changes import changes
from lakeingest.schema.compatibility.decision import Decision, decide
from lakeingest.schema.compatibility.verdict import Verdict, check
from lakeingest.schema.compatibility.widening import misfit
from lakeingest.schema.formats.avro import without_docs
from lakeingest.schema.ledger import SchemaLedger, Side
from lakeingest.schema.model import Schema
from lakeingest.schema.transforms import Stage, TransformError
from lakeingest.spark import types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Discovery(Enum):
    """When a run looks at the schemas of a batch: it need not, as long as it meets none that it does not know."""

    SAMPLE_FIRST = auto()
    """Records bring their schemas, and none was looked at yet: a sample tells most of them."""
    BATCH_FIRST = auto()
    """The last batch had ids that the registry did not know, or no columns are known: this one would only fail."""
    WHEN_MET = auto()
    """The batch fails before its commit if it meets one, and is looked at then."""


class Evolution:
    """The schemas of one pipeline while it runs.

    Attributes:
        declares: whether the pipeline file says of schemas what the ledger does not know yet.
        appearance: what the records look like that were looked at, if none of them brought a schema of rows.
    """

    def __init__(
        self,
        config: PipelineConfig,
        ledger: SchemaLedger,
        registry: Callable[[], AnyRegistry],
        table: StructType | None = None,
        *,
        follows: bool = True,
    ) -> None:
        """
        Args:
            table: the table's columns; None if there is no table yet.
            follows: whether the table and its ledger follow what the batches bring.

        Raises:
            TableMismatch: the table cannot become what the file declares.
        """
        self._decisions = SchemaDecisions(config, ledger, follows=follows)
        self._config = config
        self._open = registry
        self._writer_schemas: dict[tuple[Side, bytes], WriterSchema] = {}
        self._declare(self._columns(table))
        self.declares = self.ledger.current != ledger.current
        self._looked = not self._framed
        self._unknown_ids = False
        self._early: list[tuple[Mapping[TopicPartition, int], Schema]] = []
        self.appearance = ""

    @property
    def ledger(self) -> SchemaLedger:
        """The ledger of schemas, as the next receipt bears it."""
        return self._decisions.ledger

    @cached_property
    def _registry(self) -> AnyRegistry:
        return self._open()

    @property
    def _framed(self) -> tuple[Side, ...]:
        """The sides whose records name their schema, or bring it."""
        return tuple(side for side in SIDES if brings_schema(self._format(side)))

    @property
    def _observes(self) -> bool:
        """Whether a JSON field that is not declared changes the table."""
        return isinstance(self._config.decode.value, config.JsonValue) and self._config.compatibility != "FORWARD"

    @property
    def discovery(self) -> Discovery:
        """When the schemas of the next batch have to be discovered."""
        if not self._looked:
            return Discovery.SAMPLE_FIRST
        return Discovery.BATCH_FIRST if self._unknown_ids or not self.settled else Discovery.WHEN_MET

    @property
    def settled(self) -> bool:
        """Whether the value's columns are known: always, but before the first record that brings its schema."""
        return not brings_schema(self._config.decode.value) or "value" in self.ledger.current

    def _format(self, side: Side) -> Any:
        return self._config.decode.side(side)

    # What a batch becomes ----------------------------------------------------------------------------------------

    def shape(self, table: StructType | None, *, strict: bool) -> Shape:
        """The columns of a batch, and how its records are read.

        Args:
            table: the table's columns; None if there is no table yet.
            strict: whether a schema that is not known stops the batch: it need not where `discover` has seen all of it.
        """
        sides: dict[Side, SchemaBranches] = {}
        columns = self._columns(table)
        for side in SIDES:
            # The longest header first: one without indexes stands for a schema that cannot be read at all.
            by_header = tuple(
                sorted((k for k in self._writer_schemas.values() if k.side == side), key=lambda k: -len(k.header))
            )
            framed = side in self._framed
            if framed or by_header:
                branches = tuple(self._branch(k, columns) for k in by_header)
                by = framing.of(self._config, side) if framed else None
                sides[side] = SchemaBranches(branches, framing=by, strict=framed and strict)
        value, key = self._value(columns), shape.key_type(self._config, self.ledger.table("key"))
        stages = self._stages(value)
        columns_made = types.of_columns(stages[-1].after) if stages else value
        if table is not None and "value" in self.ledger.current:
            if stages and (why := misfit(types.ddl_columns(table), types.ddl_columns(columns_made))):
                raise self._mismatch(f"transform makes of it: {why}", "cast the column to the type that it had")
            columns_made = types.fitted(table, shape.with_partitions(self._config, columns_made, table))
        masked = hidden.paths(self._config.steps, KEY)
        if table is not None and "key" in self.ledger.current and key is not None and not masked:
            key = types.fitted(table, _alone(key))[KEY].dataType
        strict = self._observes and strict
        read = value if stages else columns_made
        early = tuple(TypeSegment(ends, columns_of(read, schema)) for ends, schema in self._early)
        result = Shape(read, key, sides, strict, stages, columns_made if stages else None, early)
        if table is not None and masked and result.table_key is not None and KEY in table.names:
            was, becomes = _alone(table[KEY].dataType), _alone(result.table_key)
            if why := misfit(types.ddl_columns(was), types.ddl_columns(becomes)):
                raise self._mismatch(f"transform makes of its key: {why}", "hide the key as it was hidden")
        return result

    def _stages(self, value: StructType) -> tuple[Stage, ...]:
        """Raises:
        PipelineFileError: a transform names what the columns do not have.
        """
        try:
            return tuple(transforms.stages(self._config.steps, types.ddl_columns(value, required=True)))
        except TransformError as wrong:
            raise file.failure("the pipeline", [str(wrong)]) from None

    def _branch(self, writer_schema: WriterSchema, columns: TableColumns) -> AnyBranch:
        if writer_schema.rowless:
            return RowlessSchema(writer_schema.header, writer_schema.rowless)
        decision = self._decisions.decision(writer_schema, columns)
        if writer_schema.schema is None or writer_schema.reading is None or decision is None:
            return RefusedSchema(writer_schema.header, UNUSABLE, f"{writer_schema.label}: {writer_schema.problem}")
        if decision.action == "quarantine":
            return RefusedSchema(writer_schema.header, str(decision.verdict), f"{writer_schema.label}: {decision.why}")
        names = naming.with_column_names(writer_schema.schema, decision.table, rescued=decision.rescued)
        return SchemaBranch(
            writer_schema.header,
            writer_schema.id,
            writer_schema.label,
            writer_schema.schema,
            writer_schema.reading.reader,
            names,
        )

    def _value(self, columns: TableColumns = None) -> StructType:
        if isinstance(self._config.decode.value, config.JsonValue):
            return shape.value_columns(self._config, self.ledger.current.get("value"))
        schemas = [each.schema for each in self._writer_schemas.values() if each.side == "value" and each.schema]
        return shape.value_columns(self._config, self._decisions.table("value", columns, schemas))

    def _columns(self, table: StructType | None) -> TableColumns:
        return types.ddl_columns(shape.of_value(self._config, table)) if table is not None else None

    def begin_batch(self) -> None:
        """Forget what was for records of the last batch alone."""
        self._early.clear()

    # What is met ---------------------------------------------------------------------------------------------------

    def discover(self, kafka: DataFrame, sequence: int, table: StructType | None) -> None:
        """Look at every header (or undeclared field) of a batch, fetch what is new, and decide.

        Args:
            table: the table's columns; None if there is no table yet.

        Raises:
            RegistryUnreachable: the registry did not answer for as long as registry.wait says; nothing was decided.
        """
        unknown_ids, columns = False, self._columns(table)
        if self._framed:
            new_schemas, unknown_ids = writer_schemas.discover(
                self._config, lambda: self._registry, self.ledger, kafka, self._writer_schemas
            )
            new_schemas = self._decisions.with_versions(new_schemas)
            self._writer_schemas.update({(k.side, k.header): k for k in new_schemas})
        if not self.settled:
            self._foresee()
        if self._observes:
            unknown_ids = self._observe(kafka, sequence, columns)
        self._decisions.decide(self._writer_schemas.values(), sequence, columns)
        self._unknown_ids, self._looked = unknown_ids, True
        kinds = {each.rowless for each in self._writer_schemas.values() if each.rowless}
        self.appearance = "" if self.settled else writer_schemas.appearance(self._config, kafka, kinds)

    def columns_from_registry(self, sequence: int) -> bool:
        """Whether the value's columns are known before a record came: from the registry, if need be."""
        if not self.settled:
            self._foresee()
            self._decisions.decide(self._writer_schemas.values(), sequence, None)
        return self.settled

    def _foresee(self) -> None:
        """Take the topic's own schema where no record says what columns the table is to have.

        A schema in no version of its subject says so under NONE alone; see `SchemaDecisions`.
        """
        if not uses_registry(self._config.decode.value):
            return
        none = self._decisions.mode("value") == "NONE"
        if not any(k.side == "value" and k.reading and (k.version or none) for k in self._writer_schemas.values()):
            latest = writer_schemas.latest_of_subject(self._config, self._registry, self.ledger)
            if latest is not None:
                self._writer_schemas[latest.side, latest.header] = latest

    # Schemas that no registry holds ----------------------------------------------------------------------------------

    def _declare(self, columns: TableColumns) -> None:
        """The schemas that the pipeline file gives: version 1, and one more each time that the file changes."""
        for side in SIDES:
            format_ = self._format(side)
            if isinstance(format_, config.AvroFormat) and format_.schema_file is not None:
                reading = read(
                    format_, "AVRO", format_.schema_file.text, (), b"", rules=SchemaRules.of(self._config, side)
                )
                text = self._decisions.known_text(
                    side, format_.schema_file.text, without_docs(format_.schema_file.text)
                )
                writer_schema = WriterSchema(
                    side, b"", None, None, self._decisions.version(side, text), fingerprint(text), None, reading
                )
                self._writer_schemas[side, b""] = writer_schema
            elif side == "value" and isinstance(format_, config.JsonValue):
                self._declare_columns(self._config.declared, columns)
        self._decisions.decide(self._writer_schemas.values(), 1, columns)

    def _declare_columns(self, text: str, columns: TableColumns) -> None:
        """Declared columns hold whatever the mode says of records, if the table can become them."""
        text = self._decisions.known_text("value", text, ddl.without_comments(text))
        before, version = self.ledger.current.get("value"), self._decisions.version("value", text)
        schema = inferred.declared(text, before, version, observes=self._observes)
        decision = Decision(
            check(schema, before, self._config.compatibility) if before else Verdict.OK,
            "evolve",
            changes(before, schema),
            schema,
        )
        if columns is not None:
            self._fits(text, columns, decision, before)
        last = next((e for e in reversed(self.ledger.entries) if e.side == "value" and e.first is None), None)
        if last is None or last.fingerprint != fingerprint(text):
            self._decisions.note(WriterSchema("value", b"", None, None, version, fingerprint(text), None), decision, 1)

    def _fits(self, text: str, columns: tuple[ddl.Column, ...], decision: Decision, before: Schema | None) -> None:
        assert decision.current is not None
        target_columns = transforms.apply(self._config.steps, ddl.parse(text))
        wrong = declared.misfits(target_columns, columns, decision.current, before, self._config.compatibility)
        if wrong is None and (why := self._decisions.barred(decision, columns)):
            wrong = declared.Misfit(why, "declare the column as it was")
        if wrong is not None:
            raise self._mismatch(f"schema.columns declares: {wrong.reason}", wrong.cure)

    def _mismatch(self, message: str, cure: str) -> TableMismatch:
        return TableMismatch(
            f"{self._config.table.identifier} cannot become what {message}", cure=f"{cure}; or {NEW_TABLE}"
        )

    def loosened(self, table: StructType, target: StructType) -> tuple[str, ...]:
        """The table's fields, paths as SQL has them, that were declared NOT NULL and are so no more."""
        still = {path for path, _ in types.not_null_fields(types.demanded(target))}
        no_longer = [(path, name) for path, name in types.not_null_fields(table) if path not in still]
        # A column that somebody else made NOT NULL is a constraint of the table's.
        return tuple(path for path, name in no_longer if name is None or self.ledger.demanded(name))

    def _observe(self, kafka: DataFrame, sequence: int, columns: TableColumns) -> bool:
        """Let the table follow undeclared JSON fields, by a schema one version on. Whether some are left."""
        observation = inferred.fields(kafka, self._config, self._value())
        current, version = self.ledger.current["value"], self._decisions.next_version("value")
        # One by one, so that a field which the table cannot take keeps no other back.
        fields = {
            name: schema
            for name, (schema, _) in observation.fields.items()
            if schema is not None
            and self._decisions.takes(inferred.with_fields(current, {name: schema}, version), columns)
        }
        # Objects whose keys are data, as ids are, would make a column of each.
        room = inferred.MOST - sum(f.schema.doc == inferred.OBSERVED for f in current.fields)
        fields = dict(islice(fields.items(), max(0, room)))
        if not fields:
            return bool(observation.fields)
        schema_with_fields = inferred.with_fields(current, fields, version)
        decision = decide(schema_with_fields, current, self._decisions.mode("value"), columns)
        if decision.action != "evolve" or model.value_columns(schema_with_fields) == model.value_columns(current):
            return True
        first = min(observation.fields[name][1] for name in fields)
        writer_schema = WriterSchema(
            "value", b"", None, None, version, fingerprint(repr(schema_with_fields.to_json())), first
        )
        self._decisions.note(writer_schema, decision, sequence)
        for split in observation.splits:
            early_fields = {name: schema for name, schema in split.fields.items() if name in fields}
            self._early.append((split.ends, inferred.with_fields(current, early_fields, version)))
        return len(fields) < len(observation.fields)


def _alone(key: T.DataType) -> StructType:
    return T.StructType([T.StructField(KEY, key)])
