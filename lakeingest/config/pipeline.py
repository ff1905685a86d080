"""The pipeline file as one frozen value. Start reading here: each field is a part of the file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from lakeingest.config import consistency, envelope, location, table_places
from lakeingest.config.base import Part
from lakeingest.config.contract import Contract
from lakeingest.config.maintenance import Maintenance, RetentionOptions
from lakeingest.config.parts import (
    Compatibility,
    Decode,
    Gate,
    Partition,
    Quarantine,
    Retry,
    Schema,
    Table,
    Trigger,
    Widening,
)
from lakeingest.config.source import Registry, Source
from lakeingest.config.storage import Storage
from lakeingest.config.transform import Transform
from lakeingest.config.values import Name, Own
from lakeingest.schema import ddl, readers, transforms
from lakeingest.schema.readers import Reader
from lakeingest.schema.transforms import TransformStep


class PipelineConfig(Part):
    """A pipeline file: Kafka topics into one Delta table, refused records into quarantine."""

    name: Name = Field(
        description="The pipeline's name. It is what commits are known by: keep it for the life of the table.",
        examples=["flights"],
    )
    renamed_from: Name | None = Field(
        None,
        description="The first name of a pipeline that was given another one: its commits, quarantine and results go "
        "on being known by it. Keep it for the life of the table.",
        examples=["flights_test"],
    )
    source: Source = Field(description="Which Kafka topics are read, and from where.")
    table: Table = Field(description="The Delta table that accepted records are written to.")
    decode: Decode = Field(default_factory=Decode, description="How the bytes of a record become columns.")
    registry: Registry = Field(
        default_factory=Registry,
        description="The schema registry, for the formats avro, protobuf and json_schema.",
    )
    schema_: Schema = Field(default_factory=Schema, alias="schema", description="The columns of the value.")
    transform: tuple[Transform, ...] = Field(
        (), description="What is done to a record's columns before the gate, step by step. Default: nothing."
    )
    partition: tuple[Partition, ...] = Field(
        (), description="How the table is cut into partitions, the outermost first. Default: not at all."
    )
    quarantine: Quarantine = Field(
        default_factory=Quarantine,
        validate_default=True,
        description="The Delta table for refused records. Default: beside the table, at table.path (or table.name) "
        "with _quarantine.",
    )
    gate: Gate | None = Field(None, description="The Great Expectations suite that records must meet. Default: none.")
    readers: tuple[Reader, ...] = Field(
        (),
        description="Who must be able to read the table: a run does nothing to it that shuts one of these out, and "
        "refuses to begin where somebody else did.",
        examples=[["athena", "duckdb"]],
    )
    contract: Contract | None = Field(None, description="What those who read the table may rely on. Default: nothing.")
    trigger: Trigger = Field(default_factory=Trigger, description="When a micro-batch is cut.")
    storage: Storage = Field(default_factory=Storage, description="How S3 is reached.")
    maintenance: Maintenance = Field(
        default_factory=Maintenance,
        description="How the tables are kept in shape: files, their order, and how long older versions stay.",
    )
    retention: RetentionOptions = Field(
        default_factory=RetentionOptions,
        description="How long rows stay in the table, in quarantine and among the gate's results. Default: for ever.",
    )
    listeners: tuple[Own, ...] = Field(
        (),
        description="Classes of one's own that hear of each commit, retry and change of a catalog's entry (see "
        "lakeingest.extend.Listener). They run with --allow-code alone.",
        examples=[["my_company.watch:Pager"]],
    )
    retry: Retry = Field(default_factory=Retry, description="How long a run waits for servers that fail.")

    @property
    def known_as(self) -> str:
        """The name that the tables know the pipeline by."""
        return self.renamed_from or self.name

    @property
    def columns(self) -> tuple[ddl.Column, ...]:
        """The columns that a record's value becomes; none where the file does not tell: the registry does, or code."""
        of_records = consistency.columns(self.decode, self.schema_)
        return transforms.apply(self.steps, of_records) if of_records and transforms.plannable(self.steps) else ()

    @property
    def declared(self) -> str:
        """The columns that a record's JSON becomes, as DDL; empty where the file declares none."""
        return envelope.declared(self.decode.envelope, self.schema_.columns)

    @property
    def code(self) -> tuple[str, ...]:
        """The classes of somebody's own that it names."""
        return (*(each.own for each in self.transform if each.own is not None), *self.listeners)

    @cached_property
    def steps(self) -> tuple[TransformStep, ...]:
        """The transforms, as `schema.transforms` knows them."""
        return tuple(each.step for each in self.transform)

    @property
    def results(self) -> str:
        """Path or name of the table of the gate's results."""
        return table_places.results(self.table, self.gate)

    @property
    def completeness(self) -> str:
        """Path or name of the completeness table."""
        return table_places.completeness(self.table, self.contract)

    @property
    def comment(self) -> str | None:
        """The table's description."""
        return self.table.comment or (self.contract.description if self.contract else None)

    @property
    def deletes(self) -> str:
        """Path or name of the table of deleted keys; empty where no record deletes one."""
        return table_places.deletes(self.table)

    @property
    def removals(self) -> str:
        """Path or name of the list of records that were taken out."""
        return table_places.removals(self.table)

    @property
    def on_null(self) -> Literal["ignore", "write", "quarantine"]:
        """What becomes of a record without a value: as decode.on_null says, or table.on_tombstone."""
        if not self.table.keyed:
            return self.decode.on_null
        return "write" if self.table.tombstones == "delete" else self.table.tombstones

    @property
    def tables(self) -> tuple[str, ...]:
        """The paths and catalog names of its tables."""
        more = (self.deletes,) if self.deletes else ()
        more = (*more, self.results) if self.gate else more
        if self.contract and self.contract.completeness:
            more = (*more, self.completeness)
        return (self.table.identifier, self.quarantine.identifier, *more, self.removals)

    @property
    def _opened(self) -> tuple[str, ...]:
        """Its tables, and the one that it is fed from."""
        return (*self.tables, *filter(None, [self.source.table]))

    @property
    def paths(self) -> tuple[str, ...]:
        """Locations of the tables that are known by their paths, the source table included."""
        return tuple(each for each in self._opened if location.is_path(each))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those tables, what it reads included, that are a catalog's own."""
        return tuple(each for each in self._opened if not location.is_path(each))

    @property
    def widening(self) -> Widening:
        """How a column's type grows: as the file says, or as its readers need it."""
        shut_out = readers.shut_out(self.readers, {readers.WIDENING})
        return self.schema_.widening or ("rewrite" if shut_out else "metadata")

    @property
    def compatibility(self) -> Compatibility:
        """When a record with another schema than the table's is written: as the file says, or by its format.

        Text and bytes have no schema that could change, so NONE holds for them.
        """
        return consistency.compatibility(self.decode, self.schema_)

    def reading(self, topics: Sequence[str]) -> PipelineConfig:
        """The same pipeline, of these topics, where the file leaves it to source.table which there are."""
        return self.model_copy(update={"source": self.source.model_copy(update={"topics": tuple(topics)})})

    @field_validator("quarantine")
    @classmethod
    def _beside(cls, quarantine: Quarantine, info: ValidationInfo) -> Quarantine:
        # A table that is wrong in itself is not among the others.
        if quarantine.identifier or "table" not in info.data:
            return quarantine
        place = table_places.aside(info.data["table"], quarantine)
        return quarantine.model_copy(update={"path" if location.is_path(place) else "name": place})

    @model_validator(mode="before")
    @classmethod
    def _of_envelope(cls, file: Any) -> Any:
        return envelope.with_row_mode(file)

    @model_validator(mode="after")
    def _agree(self) -> PipelineConfig:
        file = consistency.Parts(
            decode=self.decode,
            schema=self.schema_,
            partition=dict(enumerate(self.partition)),
            table=self.table,
            quarantine=self.quarantine,
            gate=self.gate,
            storage=self.storage,
            readers=self.readers,
            transform=self.transform,
            registry=self.registry,
            contract=self.contract,
            trigger=self.trigger,
            source=self.source,
            maintenance=self.maintenance,
            retention=self.retention,
        )
        mistakes = tuple(consistency.mistakes(file))
        if mistakes:
            summary = "; ".join(f"{'.'.join(map(str, m.path))}: {m.text}" for m in mistakes)
            raise PydanticCustomError("disagree", "{summary}", {"summary": summary, "mistakes": mistakes})
        return self
