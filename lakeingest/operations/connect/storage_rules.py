"""How Confluent's options of S3 become those of table and storage."""

from __future__ import annotations

import re
from typing import get_args

from lakeingest.config.storage import Acl
from lakeingest.config.variables import TOPIC
from lakeingest.operations.connect.translation import Translation, simple


def table(t: Translation) -> None:
    """Bucket and folder, and how S3 is reached."""
    bucket = t.text("s3.bucket.name") if "s3.bucket.name" in t else t.variable("BUCKET")
    if "s3.bucket.name" not in t:
        t.missing["table.path"] = "the configuration names no bucket"
    t.set("table.path", f"s3a://{bucket}/tables/{TOPIC}", "Beside the objects that the sink wrote, which stay.")
    codec = t.get("parquet.codec").lower()
    if codec in ("snappy", "gzip", "zstd", "none"):
        t.set("table.compression", codec)
        t.tell("parquet.codec", "carried", "table.compression")
    if t.get("s3.region"):
        t.carry("s3.region", "storage.region")
    if t.get("store.url"):
        t.set("storage.endpoint", t.text("store.url"))
        t.set("storage.path_style", t.yes("s3.path.style.access.enabled") is not False)
        if t.has_login("store.url"):
            t.tell("store.url", "changed", "storage.endpoint", "user and password are left out: keys are of storage")
        t.tell("store.url", "carried", "storage.endpoint")
        t.tell("s3.path.style.access.enabled", "carried", "storage.path_style")
    _credentials(t)
    _encryption(t)
    _network(t)


def _credentials(t: Translation) -> None:
    t.carry("aws.access.key.id", "storage.access_key", secret="AWS_ACCESS_KEY_ID")
    t.carry("aws.secret.access.key", "storage.secret_key", secret="AWS_SECRET_ACCESS_KEY")
    prefix = "s3.credentials.provider."
    role = next((o for o in (f"{prefix}sts.role.arn", f"{prefix}sts.aws.role.arn") if o in t), "")
    if role:
        t.carry(role, "storage.role.arn")
        for option, key in (("sts.role.session.name", "session_name"), ("sts.role.external.id", "external_id")):
            if t.get(f"{prefix}{option}"):
                t.carry(f"{prefix}{option}", f"storage.role.{key}")
    provider = simple(t.get(f"{prefix}class"))
    if not provider or role or "Default" in provider or "Chain" in provider:
        why = "the platform's credential chain is taken where no keys are written"
        t.tell(f"{prefix}class", "ignored", why=why)
    why = "a provider of your own: name s3a's counterpart as fs.s3a.aws.credentials.provider in storage.options"
    t.tell(f"{prefix}class", "impossible", why=why)


def _encryption(t: Translation) -> None:
    kind = {"AES256": "SSE-S3", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}.get(t.get("s3.ssea.name"))
    key = "storage.encryption.key"
    if t.get("s3.sse.customer.key"):
        kind = "SSE-C"
        why = "a variable takes its place: 32 bytes in Base64"
        t.carry("s3.sse.customer.key", key, secret="SSE_CUSTOMER_KEY", why=why)
    if kind:
        t.set("storage.encryption.type", kind)
        t.tell("s3.ssea.name", "carried", "storage.encryption.type")
    if kind in ("SSE-KMS", "DSSE-KMS") and (id := t.get("s3.sse.kms.key.id")):
        if id.startswith(("arn:", "${")):
            t.carry("s3.sse.kms.key.id", key)
        else:
            t.set(key, t.variable("KMS_KEY_ARN"))
            why = "by its ARN, which a variable brings: an id alone is of an account that is not told"
            t.tell("s3.sse.kms.key.id", "changed", key, why)
    acl = t.get("s3.acl.canned")
    if acl in get_args(Acl):
        t.carry("s3.acl.canned", "storage.acl")
    elif acl:
        canned = "".join(word.capitalize() for word in acl.split("-"))
        t.set_entry("storage.options", "fs.s3a.acl.default", canned)
        t.tell("s3.acl.canned", "carried", "storage.options", f"fs.s3a.acl.default: {canned}")


def _network(t: Translation) -> None:
    if t.yes("s3.wan.mode"):
        t.tell("s3.wan.mode", "impossible", why="write the bucket's accelerated endpoint as storage.endpoint")
    proxy = re.fullmatch(r"(?:(https?)://)?([^:/]+)(?::(\d+))?/?", t.get("s3.proxy.url"))
    if proxy:
        t.set_entry("storage.options", "fs.s3a.proxy.host", proxy[2])
        t.set_entry("storage.options", "fs.s3a.proxy.port", proxy[3] or ("443" if proxy[1] == "https" else "80"))
        t.tell("s3.proxy.url", "carried", "storage.options", "fs.s3a.proxy.host and .port")
    user = "fs.s3a.proxy.username"
    t.carry("s3.proxy.user", "storage.options", user, why=user)
    t.carry("s3.proxy.password", "storage.options", "fs.s3a.proxy.password", secret="S3_PROXY_PASSWORD")
