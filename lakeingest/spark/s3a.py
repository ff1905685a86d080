"""The object stores of a session: bucket by bucket, so that pipelines with several of them can share one.

Hadoop keeps a file system for each bucket as long as the process lives, with the options of the moment when it was
first opened. So options are set for the buckets that a pipeline's paths name, and a bucket is in one place only.
"""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from lakeingest.config import Role, Storage, location
from lakeingest.errors import SetupError, StorageUnreachable, UsageError
from lakeingest.spark import jvm
from lakeingest.spark.platforms import capabilities
from lakeingest.spark.settings import S3A

if TYPE_CHECKING:
    from pydantic import SecretStr
    from pyspark.sql import SparkSession

_OF_ALL = ("fs.s3a.bucket.", "fs.s3a.impl")
"""Options that are no bucket's: for S3A they name one themselves, or are read before a bucket is known."""
_WHERE = ("endpoint", "endpoint.region", "path.style.access")
"""What says which store a bucket is in."""
_HOW = (
    *("assumed.role.arn", "accesspoint.arn", "encryption.algorithm", "encryption.key"),
    *("acl.default", "requester.pays.enabled"),
)
"""What else a bucket is opened with, once."""
_PROVIDER = "fs.s3a.aws.credentials.provider"
_ASSUMED = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
_BASE = ",".join(
    (
        *(f"org.apache.hadoop.fs.s3a.{kind}AWSCredentialsProvider" for kind in ("Temporary", "Simple")),
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
        "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
    )
)
"""The default provider of S3A's keys. With a role it would look at access and secret key alone."""
_EMRFS = "com.amazon.ws.emr."
"""What names of classes of EMR's own file system begin with."""
_ALGORITHMS = {"SSE-S3": "AES256"}
"""A type of encryption as S3A knows it, where that is another word."""
_SET: dict[str, str] = {}
"""What was set here, in whatever session: anything else that a session has is its owner's."""
_WAIT_S = 3.0
"""Seconds in which a store may start."""
_OPENED: dict[str, tuple[str, ...]] = {}
"""Bucket → where it is, as far as this process knows."""
_KEYS: dict[str, Keys] = {}
"""Bucket → what it was opened with."""


@dataclass(frozen=True)
class Keys:
    """What a bucket is opened with.

    Attributes:
        source: where the keys come from, as the end of a sentence.
        access_key: the pipeline's, if it has one.
        customer_key: whether objects are encrypted by a key of the pipeline's (SSE-C).
    """

    source: str
    access_key: SecretStr | None = None
    customer_key: bool = False


def check_listens(storage: Storage, paths: Iterable[str]) -> None:
    """Notice within seconds that nothing listens where the store is to be: Hadoop tries again for many minutes.

    Raises:
        StorageUnreachable: the endpoint's port is closed.
    """
    names = [path for path in paths if location.place(path).on_s3]
    url = urlparse(storage.endpoint or "")
    # In host style a bucket has a host of its own.
    if not (names and url.hostname and storage.path_style) or "fs.s3a.proxy.host" in storage.options:
        return
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            socket.create_connection((url.hostname, url.port or (443 if url.scheme == "https" else 80)), 5).close()
            return
        except ConnectionRefusedError as refused:
            if time.monotonic() > deadline:
                raise StorageUnreachable(
                    f"nothing listens at {storage.endpoint}, where {names[0]} is looked for: {refused}",
                    cure="start the store (`lakeingest stack up`, if it is the embedded stack's), or correct "
                    "storage.endpoint, then run again",
                ) from refused
            time.sleep(0.5)
        except OSError:
            # Whatever else is wrong, Hadoop says at once.
            return


def s3a_options(storage: Storage) -> dict[str, str]:
    """The Hadoop options (fs.s3a.…) that say what `storage` says. The values hold secrets: never print them."""
    secrets = {
        "fs.s3a.access.key": storage.access_key,
        "fs.s3a.secret.key": storage.secret_key,
        "fs.s3a.session.token": storage.session_token,
        **storage.options,
    }
    options = {name: secret.get_secret_value() for name, secret in secrets.items() if secret is not None}
    if storage.access_key is not None:
        kind = "TemporaryAWSCredentialsProvider" if storage.session_token else "SimpleAWSCredentialsProvider"
        options.setdefault(_PROVIDER, f"org.apache.hadoop.fs.s3a.{kind}")
    if storage.endpoint is not None:
        options["fs.s3a.endpoint"] = storage.endpoint
        options["fs.s3a.connection.ssl.enabled"] = str(urlparse(storage.endpoint).scheme == "https").lower()
        options.setdefault("fs.s3a.endpoint.region", storage.region or "us-east-1")
    if storage.region is not None:
        options["fs.s3a.endpoint.region"] = storage.region
    if storage.path_style:
        options["fs.s3a.path.style.access"] = "true"
    if storage.role is not None:
        base = options.get(_PROVIDER, _BASE)
        options |= {_PROVIDER: _ASSUMED, "fs.s3a.assumed.role.credentials.provider": base, **_role(storage.role)}
    if storage.encryption is not None:
        kind = storage.encryption.type
        options["fs.s3a.encryption.algorithm"] = _ALGORITHMS.get(kind, kind)
        if storage.encryption.secret:
            options["fs.s3a.encryption.key"] = storage.encryption.secret
    if storage.requester_pays:
        options["fs.s3a.requester.pays.enabled"] = "true"
    if storage.acl is not None:
        options["fs.s3a.acl.default"] = "".join(map(str.capitalize, storage.acl.split("-")))
    options |= {f"fs.s3a.bucket.{bucket}.accesspoint.arn": arn for bucket, arn in storage.access_points.items()}
    return options


def _role(role: Role) -> dict[str, str]:
    values = {
        "arn": role.arn,
        "external.id": role.external,
        "session.name": role.session_name,
        "session.duration": f"{int(role.duration.total_seconds())}s",
    }
    return {f"fs.s3a.assumed.role.{name}": value for name, value in values.items() if value is not None}


def options(storage: Storage, paths: Iterable[str]) -> dict[str, str]:
    """The same for the buckets of these paths alone."""
    by_bucket = {}
    for name, value in s3a_options(storage).items():
        per_bucket = name.startswith("fs.s3a.") and not name.startswith(_OF_ALL)
        for bucket in _buckets(paths):
            by_bucket[f"fs.s3a.bucket.{bucket}.{name.removeprefix('fs.s3a.')}" if per_bucket else name] = value
    return by_bucket


def let_in(session: SparkSession, storage: Storage, paths: Iterable[str]) -> None:
    """Set on the session what lets it into the buckets of these paths. What its owner has set for one stays.

    Raises:
        UsageError: another pipeline of this process has opened one of them in another store.
    """
    paths = tuple(paths)
    settings = options(storage, paths)
    preset = {name for name in settings if session.conf.get(name, None) not in (None, _SET.get(name))}
    new_settings = {name: value for name, value in settings.items() if name not in preset}
    places = {bucket: _where(session, new_settings, bucket) for bucket in _buckets(paths)}
    for bucket, place in places.items():
        opened = _OPENED.get(bucket, place)
        if opened != place:
            raise UsageError(
                f"bucket {bucket} was opened in this process at {_place_text(opened)}, and this pipeline's is at "
                f"{_place_text(place)}{_differing(opened, place)}: Spark would go on with the first",
                cure="run this pipeline in a process of its own",
            )
    _OPENED.update(places)
    by_customer = storage.encryption is not None and storage.encryption.type == "SSE-C"
    keys_by_bucket = {bucket: _keys(session, storage, bucket) for bucket in places}
    _KEYS.update({bucket: replace(keys, customer_key=by_customer) for bucket, keys in keys_by_bucket.items()})
    for name, value in new_settings.items():
        session.conf.set(name, value)
    _SET.update(new_settings)


def _buckets(paths: Iterable[str]) -> list[str]:
    places = map(location.place, paths)
    return sorted({place.bucket for place in places if place.on_s3})


def _where(session: SparkSession, settings: Mapping[str, str], bucket: str) -> tuple[str, ...]:
    """What a bucket is opened with (_WHERE, _HOW): as it will be set, or as the session was started."""
    place = []
    for option in (*_WHERE, *_HOW):
        of_bucket, general = f"fs.s3a.bucket.{bucket}.{option}", f"fs.s3a.{option}"
        names = (of_bucket, f"spark.hadoop.{of_bucket}", general, f"spark.hadoop.{general}")
        values = (settings.get(of_bucket), *(session.conf.get(name, None) for name in names))
        place.append(next((value for value in values if value), "").rstrip("/"))
    return tuple(place)


def _keys(session: SparkSession, storage: Storage, bucket: str) -> Keys:
    """Places where s3a finds its keys, in the order in which it looks."""
    role = f", for the role {storage.role.arn}" if storage.role else ""
    if storage.access_key is not None:
        return Keys(f"storage.access_key and storage.secret_key{role}", storage.access_key)
    if any(name.endswith((".credentials.provider", ".access.key")) for name in storage.options):
        return Keys(f"storage.options{role}")
    names = (f"{start}.access.key" for start in (f"fs.s3a.bucket.{bucket}", "fs.s3a"))
    if any(session.conf.get(start + name, None) for name in names for start in ("", "spark.hadoop.")):
        return Keys(f"fs.s3a.access.key of the Spark session{role}")
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return Keys(f"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment{role}")
    return Keys(f"the platform (no storage.access_key, no AWS_ACCESS_KEY_ID){role}")


def opened(path: str) -> tuple[str, str, Keys]:
    """The bucket of a path, the endpoint where this process looks for it, and with which keys."""
    bucket = location.place(path).bucket
    endpoint = _OPENED[bucket][0] or "AWS" if bucket in _OPENED else "its endpoint"
    return bucket, endpoint, _KEYS.get(bucket, Keys("the Spark session, or the platform"))


def _differing(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    """The further options by name alone: a key may be among them."""
    pairs = zip(_HOW, one[len(_WHERE) :], other[len(_WHERE) :], strict=True)
    names = [f"fs.s3a.{name}" for name, old_value, new_value in pairs if old_value != new_value]
    return f", with another {', '.join(names)}" if names else ""


def _place_text(place: tuple[str, ...]) -> str:
    endpoint, region, path_style = place[: len(_WHERE)]
    style = "path style" if path_style == "true" else "host style"
    return f"{endpoint or 'AWS'} (region {region or 'not set'}, {style})"


def check_file_system(session: SparkSession, paths: Iterable[str], *, stacklevel: int) -> None:
    """Refuse EMRFS, and warn of a log store that loses commits, in a session that somebody else started.

    Databricks commits through a service of its own; elsewhere Delta's default store for S3 loses commits. EMR has S3A
    by default since release 7.10; who wants EMRFS sets fs.s3.impl (EMR's release guide, "EMRFS to S3A").

    Raises:
        SetupError: a scheme of these paths is EMRFS's.
    """
    schemes = sorted({place.scheme for place in map(location.place, paths) if place.on_s3})
    can = capabilities.of(session)
    if can.databricks:
        return
    for scheme in schemes:
        option = f"fs.{scheme}.impl"
        if (can.hadoop_setting(option) or "").startswith(_EMRFS):
            raise SetupError(
                f"{scheme}:// is EMRFS in this Spark session ({option}), and EMRFS cannot create a file only if there "
                "is none: of two drivers that commit at once, one commit would vanish",
                cure=f"start the session with --conf spark.hadoop.{option}={S3A}",
            )
    bare = [each for each in schemes if session.conf.get(f"spark.delta.logStore.{each}.impl", None) is None]
    if not bare:
        return
    names = [f"spark.delta.logStore.{each}.impl={jvm.LOG_STORE}" for each in bare]
    names += [f"spark.hadoop.fs.{each}.impl={S3A}" for each in bare if each != "s3a"]
    warnings.warn(
        f"this Spark session has no safe log store for {', '.join(f'{each}://' for each in bare)} tables: two drivers "
        f"that write one table can lose commits. Start it with --jars {jvm.JAR} "
        + " ".join(f"--conf {name}" for name in names),
        stacklevel=stacklevel + 1,
    )
