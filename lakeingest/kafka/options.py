"""The options of Kafka's clients: librdkafka's names in the file, and Java's for Spark's reader."""

from __future__ import annotations

import hashlib
import json
import os

from lakeingest.config import Source

_SALT = os.urandom(16)


def librdkafka(source: Source) -> dict[str, str]:
    """`source.options` as librdkafka takes them. The values hold secrets: never print them."""
    return {name: secret.get_secret_value() for name, secret in source.options.items()}


def without_values(source: Source, text: str) -> str:
    """A message of librdkafka's without the values of the options, which may be secrets."""
    for value in librdkafka(source).values():
        text = text.replace(value, "…") if len(value) > 3 else text
    return text


def for_java(source: Source, package: str = "org.apache.kafka") -> dict[str, str]:
    """The same options under the names that Kafka's Java client has, so that a file says them once.

    Args:
        package: where the session has that client's classes; see `Capabilities.kafka_package`.
    """
    options = librdkafka(source)
    user, password = options.pop("sasl.username", None), options.pop("sasl.password", None)
    mechanism = options.pop("sasl.mechanisms", options.pop("sasl.mechanism", None))
    if mechanism is not None:
        options["sasl.mechanism"] = mechanism
    if user is not None and password is not None:
        module = "scram.ScramLoginModule" if (mechanism or "").startswith("SCRAM") else "plain.PlainLoginModule"
        user, password = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password))
        options["sasl.jaas.config"] = (
            f'{package}.common.security.{module} required username="{user}" password="{password}";'
        )
    if authority := options.pop("ssl.ca.location", None):
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    return {f"kafka.{name}": value for name, value in options.items()}


def group(pipeline: str, source: Source) -> str:
    """The name under which executors keep their consumers from batch to batch; nothing is ever committed under it.

    Spark refuses to go on with a name whose options have changed, as they do when a password is rotated. What is made
    of them says nothing about them outside this process.
    """
    options = json.dumps(librdkafka(source), sort_keys=True).encode()
    return f"lakeingest-{pipeline}-{hashlib.blake2s(options, key=_SALT, digest_size=4).hexdigest()}"
