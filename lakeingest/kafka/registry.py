"""The schema registry: which schema an id means, and which version of its subject it is.

An answer is kept for ever, because an id never changes its meaning; that there is no such schema is never kept,
because it may be registered a moment later. A registry that is away is waited for, and then ends the run: it must
not look like a record's fault.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lakeingest.config import Registry as Config
from lakeingest.config import Strategy
from lakeingest.errors import RegistryRefused, RegistryUnreachable, UsageError
from lakeingest.local.loopback import direct
from lakeingest.schema.ledger import SchemaId, Side

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

_MOST_REFERENCES = 500
"""A schema with more lacks some, and so does not parse."""
REQUEST_S = 10.0
"""Seconds that one request may take; many of them fit into `registry.wait`."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_NO_SUCH = (40401, 40402, 40403, 40408)
"""No such subject, version, schema, or level of a subject's own. A 404 without one of these comes from something that
is no registry."""

T = TypeVar("T")


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as the registry holds it; nobody has parsed it yet.

    Attributes:
        id: what records name it by.
        type: AVRO, PROTOBUF or JSON.
        text: as it was registered.
        references: (name as the schema calls it, text) of all that it builds on: dependencies first, each name once.
        fingerprint: SHA-256 over type, text and references; equal in every registry that holds the same text.
        subject, version: where the registry has it, if the id alone says so (AWS Glue's).
    """

    id: SchemaId
    type: str
    text: str
    references: tuple[tuple[str, str], ...]
    fingerprint: str
    subject: str | None = None
    version: int | None = None

    def registered(self, subject: str, version: int) -> RegisteredSchema:
        """The same, with where the registry has it."""
        return replace(self, subject=subject, version=version)

    @classmethod
    def of(cls, id: SchemaId, type: str, text: str, references: tuple[tuple[str, str], ...] = ()) -> RegisteredSchema:
        """The same, with its fingerprint."""
        hashed = hashlib.sha256(json.dumps([type, text, references]).encode())
        return cls(id, type, text, references, hashed.hexdigest())


class Tries:
    """Pauses that grow, between questions that are asked again until a time.

    Args:
        until: of the monotonic clock, in seconds.
    """

    def __init__(self, until: float) -> None:
        self._until, self._pause_s = until, _FIRST_PAUSE_S

    def again(self) -> bool:
        """Whether there is time for one more, after a pause."""
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return True


def subject(strategy: Strategy, topic: str, side: Side, record_name: str | None) -> str:
    """The subject that a producer registers a schema under.

    Empty where the strategy asks for a name and the schema has none: the registry knows no such subject.
    """
    if strategy == "topic":
        return f"{topic}-{side}"
    if not record_name:
        return ""
    return record_name if strategy == "record" else f"{topic}-{record_name}"


class RegistryClient:
    """Asks a schema registry, through confluent-kafka's client.

    Raises:
        UsageError: from the constructor, when registry.options make no sense.
        RegistryUnreachable: from every method, when there is no answer within `registry.wait` (and one request).
        RegistryRefused: from every method, when the registry denies access, or is not trusted.
    """

    def __init__(self, config: Config, url: str) -> None:
        self._url = url
        self._wait_s = config.wait.total_seconds()
        self._options = {name: secret.get_secret_value() for name, secret in config.options.items()}
        self._client = self._connected()
        self._writers: dict[SchemaId, RegisteredSchema] = {}
        self._versions: dict[tuple[str, SchemaId], int] = {}
        self._ids: dict[str, int] = {}

    def writer(self, id: SchemaId) -> RegisteredSchema | None:
        """The schema of an id, or of a GUID; None where the registry says that there is none."""
        if isinstance(id, str):
            number = self._id_of(id)
            return None if number is None else self.writer(number)
        # Four bytes hold more than a registry has: Confluent's takes such an id for a path that it does not know.
        if not 1 <= id < 2**31:
            return None
        if id not in self._writers:
            until = self._until()
            schema = self._ask(f"schema id {id}", until, partial(self._client.get_schema, id))
            if schema is None:
                return None
            self._writers[id] = self._writer(id, schema, until)
        return self._writers[id]

    def _id_of(self, guid: str) -> int | None:
        """The id that a GUID's schema has in the context of `registry.url`."""
        if guid not in self._ids:
            ids = self._ask(f"schema GUID {guid}", self._until(), partial(self._ids_of, guid)) or []
            (context,) = re.findall(r"/contexts/:?(\.[^/:]*)", self._url)[-1:] or ["."]
            for each in ids:
                if each["context"] == context:
                    self._ids[guid] = each["id"]
        return self._ids.get(guid)

    def _ids_of(self, guid: str) -> list[dict[str, Any]]:
        """The ids of a GUID's schema, in each context that has it: {"context": ".", "id": 1}."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            # The client has a method for the schema of a GUID; its answer has no id.
            ids: list[dict[str, Any]] = self._client._rest_client.get(f"schemas/guids/{guid}/ids")
        except SchemaRegistryError as error:
            # A registry that knows no GUIDs answers so, as Apicurio's does; what is none does not know the types.
            if error.http_status_code == 404 and self._client.get_schema_types():
                return []
            raise
        return ids

    def version(self, subject: str, writer: RegisteredSchema) -> int | None:
        """The version of a schema under a subject, the highest if there are several; None if it is not there.

        A version that was deleted since counts: its records are still in Kafka.
        """
        if subject and (subject, writer.id) not in self._versions:
            # By id and not by text: Apicurio does not find a text that differs in a blank.
            number = int(writer.id)
            question = partial(self._client.get_schema_versions, number, subject_name=subject, deleted=True)
            listed = self._ask(f"the versions of schema id {writer.id}", self._until(), question) or []
            # Apicurio lists every subject, whichever it is asked for.
            if versions := [each.version for each in listed if each.subject == subject and each.version is not None]:
                self._versions[subject, writer.id] = max(versions)
        return self._versions.get((subject, writer.id))

    def elsewhere(self, writer: RegisteredSchema) -> tuple[str, ...]:
        """The places of a schema in the registry, three at most: "version 1 of orders-value"."""
        question = partial(self._client.get_schema_versions, int(writer.id), deleted=True)
        listed = self._ask(f"the versions of schema id {writer.id}", self._until(), question) or []
        return tuple(f"version {each.version} of {each.subject}" for each in listed[:3])

    def topic_subject(self, topic: str, side: Side) -> str:
        """The subject of a topic's own schema."""
        return subject("topic", topic, side, None)

    def latest(self, subject: str) -> tuple[RegisteredSchema, int] | None:
        """The newest schema of a subject and its version, asked anew each time; None if there is none."""
        if not subject:
            return None
        until = self._until()
        self._client.clear_latest_caches()
        answer = self._ask(f"the newest version of {subject}", until, partial(self._client.get_latest_version, subject))
        if answer is None or answer.schema_id is None or answer.version is None:
            return None
        if answer.schema_id not in self._writers:
            self._writers[answer.schema_id] = self._writer(answer.schema_id, answer.schema, until)
        return self._writers[answer.schema_id], answer.version

    def compatibility(self, subject: str) -> str:
        """The compatibility of a subject's next version: its own level, else that of all subjects."""
        until = self._until()
        of_subject = partial(self._client.get_compatibility, subject)
        level = self._ask(f"the compatibility of {subject}", until, of_subject)
        return level or self._ask("the compatibility of all subjects", until, self._client.get_compatibility) or "NONE"

    def _writer(self, id: int, schema: Schema, until: float) -> RegisteredSchema:
        references: dict[str, str] = {}
        self._collect(schema, until, references, set())
        return RegisteredSchema.of(id, schema.schema_type or "AVRO", schema.schema_str or "", tuple(references.items()))

    def _collect(self, schema: Schema, until: float, texts: dict[str, str], names: set[str]) -> None:
        for reference in schema.references or ():
            name, subject, version = reference.name, reference.subject, reference.version
            if not name or not subject or version is None or name in names or len(names) == _MOST_REFERENCES:
                continue
            names.add(name)
            question = partial(self._client.get_version, subject, version, deleted=True)
            reference_schema = self._ask(f"version {version} of {subject}", until, question)
            # One that is gone is left out: then the schema does not parse, and that is said of its records.
            if reference_schema is not None:
                self._collect(reference_schema.schema, until, texts, names)
                texts[name] = reference_schema.schema.schema_str or ""

    def _until(self) -> float:
        return time.monotonic() + self._wait_s

    def _ask(self, subject: str, until: float, question: Callable[[], T]) -> T | None:
        """The answer, None for "no such"; what passes is waited for."""
        from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError
        from httpx2 import LocalProtocolError, TransportError

        tries = Tries(until)
        while True:
            try:
                return question()
            except SchemaRegistryError as error:
                status = error.http_status_code
                if status == 404 and error.error_code in _NO_SUCH:
                    return None
                reason = f"HTTP {status}, {self._plain(error.error_message or 'without a word of a registry')}"
                # A plain 404 may be a gateway's whose registry is not up yet.
                if status not in (*_PASSING, 404):
                    raise self._refused(subject, reason) from None
            except (LocalProtocolError, UnicodeEncodeError):
                # Its text repeats the header, in whatever spelling.
                raise self._refused(subject, "a value cannot be sent; is there a line break in it?") from None
            except TransportError as error:
                reason = self._plain(str(error)) or type(error).__name__
                if _untrusted(error):
                    raise self._refused(subject, reason) from None
            except OAuthTokenError as error:
                reason = self._plain(f"no token: {error.message}")
            except json.JSONDecodeError:
                reason = "the answer is not JSON"
            if not tries.again():
                raise self._unreachable(subject, reason)

    def _unreachable(self, subject: str, reason: str) -> RegistryUnreachable:
        return RegistryUnreachable(
            f"the schema registry at {self._url} did not answer for {self._wait_s:g} s, asked for {subject}: {reason}",
            cure="start the registry, or correct registry.url (its path included, as in /apis/ccompat/v7); "
            "nothing was lost, run again",
        )

    def _refused(self, subject: str, reason: str) -> RegistryRefused:
        return RegistryRefused(
            f"the schema registry at {self._url} is not to be had, asked for {subject}: {reason}",
            cure="correct registry.options (basic.auth.user.info, bearer.auth.token, ssl.ca.location) or registry.url; "
            "nothing was lost, run again",
        )

    def _connected(self) -> SchemaRegistryClient:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        # The client's own retries would multiply ours.
        client_options = {"url": self._url, "timeout": min(REQUEST_S, max(self._wait_s, 0.1)), "max.retries": 0}
        try:
            with direct(self._url):
                return SchemaRegistryClient({**self._options, **client_options})
        except (ValueError, TypeError, OSError) as error:
            raise UsageError(
                f"registry.options cannot be used: {self._plain(str(error))}",
                cure="correct them; they are those of confluent-kafka's SchemaRegistryClient (bearer.auth.token needs "
                "bearer.auth.credentials.source: STATIC_TOKEN and bearer.auth.logical.cluster beside it)",
            ) from None

    def _plain(self, text: str) -> str:
        """The text without the values of options, and short."""
        for value in self._options.values():
            for secret in (value, value.partition(":")[2], base64.b64encode(value.encode()).decode()):
                text = text.replace(secret, "…") if len(secret) > 3 else text
        return text if len(text) <= 300 else f"{text[:299]}…"


def _untrusted(error: BaseException | None) -> bool:
    """Whether a certificate was the reason: waiting makes none better."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
