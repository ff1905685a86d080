"""AWS Glue Schema Registry, through boto3: the same questions that `registry.RegistryClient` answers.

An id is the UUID of one version of one schema, so nothing has to be derived from a topic's name. Glue has no references
between schemas.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from lakeingest.config import Registry as Config
from lakeingest.config import Storage
from lakeingest.errors import RegistryRefused, RegistryUnreachable, SetupError
from lakeingest.kafka.registry import REQUEST_S, RegisteredSchema, Tries
from lakeingest.local.loopback import direct
from lakeingest.schema.ledger import SchemaId, Side

_CONNECT_S = 3.0
_PASSING = ("Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException")
Answer = Mapping[str, Any]


class GlueClient:
    """Asks AWS Glue.

    Raises:
        SetupError: from every method, when boto3 is not installed.
        RegistryUnreachable: from every method, when there is no answer within `registry.wait` (and one request).
        RegistryRefused: from every method, when there are no keys, or Glue denies access.
    """

    def __init__(self, config: Config, storage: Storage) -> None:
        """`storage`: its region and keys, where boto3 finds none by itself."""
        assert config.glue is not None
        self._glue, self._storage = config.glue, storage
        self._wait_s = config.wait.total_seconds()
        self._schemas: dict[SchemaId, RegisteredSchema] = {}

    def writer(self, id: SchemaId) -> RegisteredSchema | None:
        """The schema of a version's id; None where Glue says that there is none."""
        if id not in self._schemas:
            ask = partial(self._client.get_schema_version, SchemaVersionId=id)
            answer = self._ask(f"schema version {id}", ask)
            if answer is None:
                return None
            self._schemas[id] = _registered(answer)
        return self._schemas[id]

    def version(self, subject: str, writer: RegisteredSchema) -> int | None:
        """The version of its schema that it is."""
        return writer.version

    def elsewhere(self, writer: RegisteredSchema) -> tuple[str, ...]:
        """Nowhere: each id is of one version."""
        return ()

    def topic_subject(self, topic: str, side: Side) -> str:
        """The schema that AWS's serializers register for a topic, unless they are told another name."""
        return topic

    def latest(self, subject: str) -> tuple[RegisteredSchema, int] | None:
        """The newest version of a schema, asked anew each time; None if there is none."""
        ask = partial(
            self._client.get_schema_version,
            SchemaId=self._schema(subject),
            SchemaVersionNumber={"LatestVersion": True},
        )
        answer = self._ask(f"the newest version of {subject}", ask)
        if answer is None or answer.get("Status", "AVAILABLE") != "AVAILABLE":
            return None
        schema = _registered(answer)
        return schema, schema.version or 0

    def compatibility(self, subject: str) -> str:
        """Glue's compatibility for a schema's next version; empty where there is no such schema."""
        answer = self._ask(
            f"the compatibility of {subject}", partial(self._client.get_schema, SchemaId=self._schema(subject))
        )
        return str(answer["Compatibility"]).replace("_ALL", "_TRANSITIVE") if answer else ""

    def _schema(self, name: str) -> dict[str, str]:
        return {"RegistryName": self._glue.registry, "SchemaName": name}

    def _ask(self, subject: str, question: Callable[..., Answer]) -> Answer | None:
        """The answer, None for "no such"; what passes is waited for."""
        from botocore import exceptions
        from botocore.parsers import ResponseParserError

        tries = Tries(time.monotonic() + self._wait_s)
        while True:
            try:
                return question()
            except exceptions.ClientError as error:
                code = error.response.get("Error", {}).get("Code", "")
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
                if code == "EntityNotFoundException":
                    return None
                reason = _short(error)
                if code not in _PASSING and status < 500 and status != 429:
                    raise self._refused(subject, reason) from None
            except exceptions.SSLError as error:
                raise self._refused(subject, _short(error)) from None
            except (
                exceptions.ConnectionError,
                exceptions.HTTPClientError,
                exceptions.CredentialRetrievalError,
                exceptions.MetadataRetrievalError,
                ResponseParserError,
            ) as error:
                reason = _short(error)
            except exceptions.BotoCoreError as error:
                raise self._refused(subject, _short(error)) from None
            if not tries.again():
                raise self._unreachable(subject, reason)

    @cached_property
    def _client(self) -> Any:
        try:
            import boto3
        except ImportError:
            cure = "pip install 'lakeingest[glue]'"
            raise SetupError("boto3 is not installed, which registry.glue needs", cure=cure) from None
        from botocore.config import Config as Options
        from botocore.exceptions import BotoCoreError

        # boto3's own tries would multiply ours.
        options = Options(
            connect_timeout=_CONNECT_S,
            read_timeout=min(REQUEST_S, max(self._wait_s, 0.1)),
            retries={"total_max_attempts": 1, "mode": "standard"},
        )
        try:
            session = boto3.Session()
            keys = {} if session.get_credentials() else self._storage.aws_keys
            # boto3 itself looks at AWS_DEFAULT_REGION alone.
            default_region = os.environ.get("AWS_REGION") or session.region_name
            region = self._glue.region or default_region or self._storage.region
            with direct(self._glue.endpoint or os.environ.get("AWS_ENDPOINT_URL_GLUE", "")):
                return session.client(
                    "glue", region_name=region, endpoint_url=self._glue.endpoint, config=options, **keys
                )
        except (BotoCoreError, ValueError) as error:
            # A ValueError is an endpoint that is no URL.
            raise self._refused("a connection", _short(error)) from None

    @property
    def _where(self) -> str:
        client = self.__dict__.get("_client")
        return f"AWS Glue at {client.meta.endpoint_url}" if client else "AWS Glue"

    def _unreachable(self, subject: str, reason: str) -> RegistryUnreachable:
        return RegistryUnreachable(
            f"{self._where} did not answer for {self._wait_s:g} s, asked for {subject}: {reason}",
            cure="look at the network to Glue's endpoint, or correct registry.glue.region or registry.glue.endpoint; "
            "nothing was lost, run again",
        )

    def _refused(self, subject: str, reason: str) -> RegistryRefused:
        return RegistryRefused(
            f"{self._where} is not to be had, asked for {subject}: {reason}",
            cure="look at the keys (AWS_PROFILE, AWS_ACCESS_KEY_ID or the machine's role, else storage.access_key) and "
            "at registry.glue.region, and allow glue:GetSchemaVersion and glue:GetSchema; nothing was lost, run again",
        )


def _registered(answer: Answer) -> RegisteredSchema:
    # arn:aws:glue:REGION:ACCOUNT:schema/REGISTRY/SCHEMA
    subject = answer["SchemaArn"].partition(":schema/")[2]
    schema = RegisteredSchema.of(answer["SchemaVersionId"], answer["DataFormat"], answer["SchemaDefinition"])
    return schema.registered(subject, int(answer["VersionNumber"]))


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 300 else f"{text[:299]}…"
