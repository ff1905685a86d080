"""The schemas that records bring along, in the place of a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeingest.decode.readers import CONNECT
from lakeingest.kafka.registry import RegisteredSchema
from lakeingest.schema.ledger import SchemaId


@dataclass(frozen=True)
class EmbeddedSchemas:
    """Answers as a registry does (see `kafka.registry.RegistryClient`).

    Attributes:
        texts: the id that stands for a schema → its text.
    """

    texts: Mapping[SchemaId, str] = field(default_factory=dict)

    def writer(self, id: SchemaId) -> RegisteredSchema | None:
        """The schema of an id; None where no record of the batch has brought it."""
        text = self.texts.get(id)
        return None if text is None else RegisteredSchema.of(id, CONNECT, text)
