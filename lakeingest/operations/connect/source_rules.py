"""How Confluent's options of its consumer become those of source."""

from __future__ import annotations

import re

from lakeingest.operations.connect.translation import HIDDEN, Translation

_JAAS = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def source(t: Translation) -> None:
    """How Kafka is reached, and where a topic begins."""
    override = "consumer.override."
    brokers = next((o for o in (f"{override}bootstrap.servers", "bootstrap.servers") if t.get(o)), "")
    if brokers:
        servers = ",".join(each.strip().rpartition("://")[2] for each in t.text(brokers).split(","))
        t.set("source.bootstrap_servers", servers)
        t.tell(brokers, "carried", "source.bootstrap_servers")
    else:
        t.set("source.bootstrap_servers", t.variable("KAFKA_BOOTSTRAP_SERVERS"))
    begin = t.get(f"{override}auto.offset.reset")
    if begin == "latest":
        t.set("source.start", "latest")
    t.tell(f"{override}auto.offset.reset", "carried" if begin != "none" else "changed", "source.start")
    level = t.get(f"{override}isolation.level")
    why = "committed records alone are read" if level != "read_uncommitted" else "aborted records are never read here"
    t.tell(f"{override}isolation.level", "ignored" if level != "read_uncommitted" else "changed", "source", why)
    if "kafka.key" in t or "kafka.secret" in t:
        for name, value in (("security.protocol", "SASL_SSL"), ("sasl.mechanism", "PLAIN")):
            t.set_entry("source.options", name, value)
        t.set_entry("source.options", "sasl.username", t.secret("kafka.key", "KAFKA_API_KEY"))
        t.set_entry("source.options", "sasl.password", t.secret("kafka.secret", "KAFKA_API_SECRET"))
    for name in [o for o in t.options if re.match(rf"{re.escape(override)}(security|sasl|ssl)\.", o)]:
        _security(t, name, name.removeprefix(override))


def _security(t: Translation, name: str, option: str) -> None:
    if option == "sasl.jaas.config":
        login = dict(re.findall(r'(username|password)\s*=\s*"', t.get(name)) and _JAAS.findall(t.get(name)))
        if "password" not in login:
            t.tell(
                name, "impossible", why="no user and password in it: write the login of librdkafka as source.options"
            )
            return
        t.set_entry("source.options", "sasl.username", t.variable("KAFKA_USER"))
        t.set_entry("source.options", "sasl.password", t.variable("KAFKA_PASSWORD"))
        t.tell(name, "carried", "source.options", HIDDEN)
    elif "keystore" in option or "truststore" in option or option in ("ssl.key.password", "sasl.login.class"):
        t.tell(name, "impossible", why="a Java keystore: write ssl.ca.location (PEM) into source.options")
    elif option in ("security.protocol", "sasl.mechanism", "ssl.endpoint.identification.algorithm"):
        value = t.text(name) or "none"
        t.set_entry("source.options", option, value)
        t.tell(name, "carried", "source.options")
    else:
        t.tell(name, "impossible", why="of Java's client alone: see librdkafka's option for it, in source.options")
