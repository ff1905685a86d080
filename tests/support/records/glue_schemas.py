"""Producers with AWS Glue Schema Registry: the framing of aws-glue-schema-registry, which owes lakeingest nothing."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from aws_schema_registry.codec import encode
from support.records.registered import Avro, Tree

REGISTRY = "lake"


@dataclass(frozen=True)
class Producer:
    """Writes with one version of a schema.

    Attributes:
        id: of the version.
        packs: whether payloads are compressed.
    """

    tree: Tree
    id: str
    packs: bool = False

    def payload(self, fields: Tree) -> bytes:
        return Avro(self.tree).payload(fields) if self.tree["type"] == "record" else json.dumps(fields).encode()

    def __call__(self, fields: Tree) -> bytes:
        """A record as it lies in Kafka."""
        return encode(self.payload(fields), UUID(self.id), compression=self.packs)


def register(glue: Any, name: str, tree: Tree | str, compatibility: str = "BACKWARD") -> str:
    """Register a schema, or its next version, and tell the version's id.

    Args:
        glue: a client of boto3.
        tree: of Avro or JSON Schema; or a .proto text.
    """
    if isinstance(tree, str):
        text, kind = tree, "PROTOBUF"
    else:
        text, kind = json.dumps(tree), "AVRO" if tree["type"] == "record" else "JSON"
    with suppress(glue.exceptions.AlreadyExistsException):
        glue.create_registry(RegistryName=REGISTRY)
    try:
        made = glue.create_schema(
            RegistryId={"RegistryName": REGISTRY},
            SchemaName=name,
            DataFormat=kind,
            Compatibility=compatibility,
            SchemaDefinition=text,
        )
    except glue.exceptions.AlreadyExistsException:
        made = glue.register_schema_version(
            SchemaId={"RegistryName": REGISTRY, "SchemaName": name}, SchemaDefinition=text
        )
    return str(made["SchemaVersionId"])
