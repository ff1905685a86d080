"""The least rights in AWS that a pipeline needs, as a policy of IAM. Offline, and without Spark.

Which requests S3A, Delta and lakeingest make was recorded (tests/integration/test_iam.py holds each policy against real
runs). What is not obvious:

- Before a table is there, Delta looks for one in each folder above it, and S3A for each of these folders.
- S3 answers a HEAD of what is not there with 404 to whom it lets list the bucket, and else with 403, at which S3A gives
  up. A HEAD has no prefix: hence StringLikeIfExists, by which names of the bucket can be listed without a prefix too.
- A run deletes no file of a table, but the probe of its log store, and what Delta cleans up of its own log; unless it
  keeps its tables in shape itself (maintenance.every).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from lakeingest.config import PipelineConfig, location
from lakeingest.config.formats import uses_registry
from lakeingest.config.kafka_options import MSK_IAM, mechanism
from lakeingest.config.per_topic import PerTopic
from lakeingest.errors import UsageError
from lakeingest.kafka import msk, options
from lakeingest.operations import verdicts
from lakeingest.operations.results.policy import Policy

Role: TypeAlias = Literal["writer", "reader", "operator"]
ROLES: dict[Role, str] = {
    "writer": "runs the pipeline",
    "reader": "reads its tables",
    "operator": "does both, and maintains the tables: maintain, replay, backfill, export",
}
Statement: TypeAlias = dict[str, Any]
_ANY = "*"
_MSK = re.compile(r"b-\d+(?:-public)?\.([a-z0-9-]+)\.\w+\.c\d+\.kafka\.")
_LONGEST_LABEL = 20
"""A cluster's name that is longer is cut in its brokers' names; seen: behind 21 characters, and behind 22."""


def policy(config: PipelineConfig, role: str, account: str | None = None, export_to: Sequence[str] = ()) -> Policy:
    """What a role needs.

    Args:
        account: the account's number, for what S3 does not name by the bucket alone; by default any: a role, a key and
            an access point may be another account's.
        export_to: places of exports, for the operator.

    Raises:
        UsageError: there is no such role, the account is no number, a place is none, or nothing of the pipeline is in
            AWS.
    """
    if role not in ROLES:
        raise UsageError(f'--role "{role}" is no role', cure=f"write one of {', '.join(ROLES)}")
    if account is not None and not re.fullmatch(r"[0-9]{12}", account):
        raise UsageError(f'--account "{account}" is no number of an account', cure="write its twelve digits")
    for place in export_to:
        # A * or a ${…} in it would be one of IAM's.
        location.check_option("--export-to", place)
    builder = _PolicyBuilder(config, role, account)
    of_store = [*builder.store(export_to), *builder.key()]
    of_others = [*builder.glue(), *builder.registry(), *builder.msk()]
    if not (of_store or of_others):
        raise UsageError(
            f"nothing of pipeline {config.name!r} is in AWS: its tables lie on this machine, or have names alone",
            cure="name the tables by paths (table.path: s3a://…); a catalog's own tables have rights in the catalog",
        )
    assumed = config.storage.role
    if assumed is None:
        return Policy(config.name, role, _document([*of_store, *of_others]), None, tuple(builder.notes()))
    of_keys = [_allow("AssumeRole", ["sts:AssumeRole"], [assumed.arn]), *of_others]
    return Policy(config.name, role, _document(of_store), _document(of_keys), tuple(builder.notes()))


_TOPIC = "zzanytopiczz"
"""Stands for the end of a topic's name in a pipeline of a pattern, and nowhere else: a policy has * there."""


def policy_of_pattern(file: PerTopic, role: str, account: str | None = None, export_to: Sequence[str] = ()) -> Policy:
    """What a role needs for the topics that a pattern matches, and others whose names begin alike; see `policy`."""
    begins = _beginning(file.pattern.pattern)
    of_topic = policy(file.of(f"{begins}{_TOPIC}"), role, account, export_to)
    document, keys = (_anything(each) for each in (of_topic.document, of_topic.keys))
    note = f"* stands for the topics: the rights are for each one whose name begins with {begins!r}, as the pattern's"
    return Policy(file.name, role, document, keys, (*of_topic.notes, note))


def _beginning(pattern: str) -> str:
    """What each text that a regular expression matches begins with, as far as letters tell."""
    plain = re.match(r"(?:[\w-]|\\[.-])*", pattern)
    begins = plain[0] if plain and "|" not in pattern else ""
    if pattern[len(begins) :].startswith(("*", "?", "+", "{")):
        begins = re.sub(r"\\?.$", "", begins)
    return begins.replace("\\", "")


def _anything(value: Any) -> Any:
    """The same document with * in the place of `_TOPIC`; an id has letters alone."""
    match value:
        case dict():
            return {key: each if key == "Sid" else _anything(each) for key, each in value.items()}
        case list():
            return [_anything(each) for each in value]
        case str():
            return value.replace(_TOPIC, "*")
    return value


@dataclass(frozen=True)
class _TableRights:
    """A table, or an export's place.

    Attributes:
        bucket, key: where it lies.
        written, deleted: whether the role writes it, and deletes its files.
        optional: whether there need not be such a table.
    """

    bucket: str
    key: str
    written: bool
    deleted: bool = False
    optional: bool = False

    @property
    def above(self) -> list[str]:
        """The folders above it, with their slash, the bucket itself ("") last."""
        steps = self.key.split("/")[:-1]
        return ["/".join(steps[:n]) + "/" if n else "" for n in range(len(steps), -1, -1)]

    @property
    def looked_at(self) -> list[str]:
        """The keys that are looked at before it is there; none of them is an object as a rule."""
        above = (each for above in self.above for each in (above.rstrip("/"), f"{above}_delta_log") if each)
        return [self.key, *above] if self.written else [self.key] * self.optional

    @property
    def listed(self) -> list[str]:
        """The prefixes that are listed: its own, and those above before it is there."""
        above = [each for above in self.above for each in (above, f"{above}_delta_log/") if each]
        return [f"{self.key}/*", self.key, *(above if self.written else ())]


@dataclass(frozen=True)
class _PolicyBuilder:
    config: PipelineConfig
    role: Role
    account: str | None

    # --- S3 --------------------------------------------------------------------------------------------------------

    def store(self, export_to: Sequence[str]) -> Iterator[Statement]:
        """Bucket by bucket."""
        tables = [*self._tables(export_to)]
        for bucket in dict.fromkeys(table.bucket for table in tables):
            yield from self._of_bucket(bucket, [table for table in tables if table.bucket == bucket])

    def _tables(self, export_to: Sequence[str]) -> Iterator[_TableRights]:
        written, operates, removals = self.role != "reader", self.role == "operator", self.config.removals
        deleted = operates or (written and self.config.maintenance.every is not None)
        # Who takes records out maintains the tables; who reads or writes these looks which records that are.
        places = [(path, deleted if path == removals else written, deleted) for path in self.config.tables]
        places += [(path, False, False) for path in [self.config.source.table] if path and written]
        if operates:
            # Verdicts of audits stay.
            verdicts_place = verdicts.folder_of(self.config.table.identifier)
            places += [(verdicts_place, True, False), *((path, True, True) for path in export_to)]
        for path, write, delete in places:
            if location.is_path(path) and (place := location.place(path)).on_s3:
                yield _TableRights(place.bucket, "/".join(place.steps), write, delete, path == removals)

    def _of_bucket(self, bucket: str, tables: Sequence[_TableRights]) -> Iterator[Statement]:
        def objects(keys: Iterable[str]) -> list[str]:
            return [self._object(bucket, key) for key in dict.fromkeys(keys)]

        written = [table for table in tables if table.written]
        prefixes = [*dict.fromkeys(prefix for table in tables for prefix in table.listed)]
        condition = {"StringLikeIfExists": {"s3:prefix": prefixes}}
        yield _allow(f"List {bucket}", ["s3:ListBucket"], [self._bucket(bucket)], condition)
        yield _allow(f"Read {bucket}", ["s3:GetObject"], objects(f"{table.key}/*" for table in tables))
        if looked_at := objects(key for table in tables for key in table.looked_at):
            yield _allow(f"Look {bucket}", ["s3:GetObject"], looked_at)
        if written:
            actions = ["s3:PutObject", "s3:AbortMultipartUpload"]
            if self.config.storage.acl:
                actions.append("s3:PutObjectAcl")
            yield _allow(f"Write {bucket}", actions, objects(f"{table.key}/*" for table in written))
            deleted = (f"{table.key}/*" if table.deleted else f"{table.key}/_delta_log/*" for table in written)
            yield _allow(f"Delete {bucket}", ["s3:DeleteObject"], objects(deleted))

    def _bucket(self, bucket: str) -> str:
        return self.config.storage.access_points.get(bucket) or f"arn:{self.partition}:s3:::{bucket}"

    def _object(self, bucket: str, key: str) -> str:
        point = self.config.storage.access_points.get(bucket)
        return f"{point}/object/{key}" if point else f"arn:{self.partition}:s3:::{bucket}/{key}"

    # --- KMS -------------------------------------------------------------------------------------------------------

    def key(self) -> Iterator[Statement]:
        """The key that encrypts, by way of S3 alone."""
        encryption = self.config.storage.encryption
        if encryption is None or encryption.kms_key is None:
            return
        arn = encryption.kms_key
        through: dict[str, Any] = {"StringEquals": {"kms:ViaService": f"s3.{arn.split(':')[3]}.{self._domain}"}}
        if ":alias/" in arn:
            head, _, alias = arn.partition(":alias/")
            # A policy knows a key by its id alone.
            through["ForAnyValue:StringEquals"] = {"kms:ResourceAliases": f"alias/{alias}"}
            arn = f"{head}:key/*"
        actions = ["kms:Decrypt"] if self.role == "reader" else ["kms:Decrypt", "kms:GenerateDataKey"]
        yield _allow("Key", actions, [arn], through)

    # --- Glue and MSK ----------------------------------------------------------------------------------------------

    def glue(self) -> Iterator[Statement]:
        """The entries in Glue's Data Catalog."""
        config = self.config
        names = [name for name in (config.table.name, config.quarantine.name) if name]
        if config.table.catalog != "glue" or not names:
            return
        entries = ["catalog"]
        for name in names:
            database, _, table = name.partition(".")
            entries += [f"database/{database}", f"table/{database}/{table}"]
        actions = ["glue:GetDatabase", "glue:GetTable"]
        if self.role != "reader":
            actions += ["glue:CreateDatabase", "glue:CreateTable", "glue:UpdateTable"]
        yield _allow("Catalog", actions, [self._arn("glue", each) for each in dict.fromkeys(entries)])

    def registry(self) -> Iterator[Statement]:
        """The schemas in Glue's registry."""
        glue, decode = self.config.registry.glue, self.config.decode
        if glue is None or self.role == "reader" or not (uses_registry(decode.value) or uses_registry(decode.key)):
            return
        places = [
            self._arn("glue", f"{kind}/{glue.registry}{end}") for kind, end in (("registry", ""), ("schema", "/*"))
        ]
        yield _allow("Schemas", ["glue:GetSchema"], places)
        # It is asked by the id in a record, which names no registry: AWS's own example for who reads has any.
        yield _allow("Versions", ["glue:GetSchemaVersion"], [_ANY])

    def msk(self) -> Iterator[Statement]:
        """The topics, where MSK's IAM lets in: to be described and read. No consumer group is joined, but that of
        source.commit_to_group may be committed to.
        """
        source = self.config.source
        if mechanism(options.of_file(source)) != MSK_IAM or self.role == "reader":
            return
        cluster, region = self._cluster
        topics = [f"topic/{cluster}/{_ANY}/{topic}" for topic in source.topics]
        yield _allow(
            "Cluster",
            ["kafka-cluster:Connect", "kafka-cluster:DescribeCluster"],
            [self._arn("kafka", f"cluster/{cluster}/{_ANY}", region)],
        )
        actions = ["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"]
        yield _allow("Topics", actions, [self._arn("kafka", each, region) for each in topics])
        if source.commit_to_group is not None:
            place = self._arn("kafka", f"group/{cluster}/{_ANY}/{source.commit_to_group}", region)
            yield _allow("Group", ["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"], [place])

    @property
    def _cluster(self) -> tuple[str, str]:
        """Name and region of the cluster, as far as the brokers' names tell: those of a serverless one have no name.

        They have it in lower case, and IAM looks at the case: a ? stands for each letter.
        """
        servers = (self.config.source.bootstrap_servers or "").lower()
        region = msk.region_named(servers) or self.region
        if not (match := _MSK.search(servers)):
            return _ANY, region
        return re.sub("[a-z]", "?", match[1]) + ("" if len(match[1]) <= _LONGEST_LABEL else _ANY), region

    # --- names -----------------------------------------------------------------------------------------------------

    @property
    def _known_arns(self) -> list[str]:
        storage = self.config.storage
        kms = storage.encryption.kms_key if storage.encryption else None
        role = storage.role.arn if storage.role else None
        return [each for each in (role, *storage.access_points.values(), kms) if each]

    @property
    def partition(self) -> str:
        """aws, or what stands for it in China and for the government."""
        if self._known_arns:
            return self._known_arns[0].split(":")[1]
        region = self.config.storage.region or msk.region_named(self.config.source.bootstrap_servers or "") or ""
        return "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"

    @property
    def _domain(self) -> str:
        return "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"

    @property
    def region(self) -> str:
        return self.config.storage.region or _ANY

    @property
    def number(self) -> str:
        """The account's."""
        return self.account or _ANY

    def _arn(self, service: str, resource: str, region: str | None = None) -> str:
        of_registry = self.config.registry.glue.region if self.config.registry.glue else None
        region = region or (of_registry if resource.startswith(("registry/", "schema/")) else None) or self.region
        return f"arn:{self.partition}:{service}:{region}:{self.number}:{resource}"

    def notes(self) -> Iterator[str]:
        """What the document leaves to others."""
        storage, names = self.config.storage, self.config.names
        if storage.role:
            yield f"it is the policy of {storage.role.arn}; whose keys assume it need one of their own (`keys`)"
        if names:
            yield f"{', '.join(names)}: known by name, so the rights are the catalog's to give"
        if storage.access_points:
            yield "the policies of bucket and access point must allow it too"
        if storage.encryption and storage.encryption.kms_key:
            yield "the key's own policy must allow it too, unless it leaves that to IAM"
        if storage.options:
            yield "what storage.options asks for is not looked at"
        registry = self.config.registry.glue
        if storage.region and (self.config.table.catalog == "glue" or (registry and not registry.region)):
            yield f"Glue is asked in the region of AWS_REGION, where that is set; here it is {storage.region}'s"
        by_iam = mechanism(options.of_file(self.config.source)) == MSK_IAM and self.role != "reader"
        if self.number == _ANY and (self.config.table.catalog == "glue" or registry or by_iam):
            yield "no account is named, so any stands in the ARNs; write --account"
        if by_iam:
            yield (
                f"the brokers do not tell the cluster's name as it is written; write it in the place of "
                f"{self._cluster[0]}, and its id behind it"
            )


def _allow(
    name: str, actions: Sequence[str], resources: Sequence[str], condition: dict[str, Any] | None = None
) -> Statement:
    # An id has letters and digits alone.
    words = re.findall(r"[A-Za-z0-9]+", name)
    statement: Statement = {
        "Sid": "".join(word[0].upper() + word[1:] for word in words),
        "Effect": "Allow",
        "Action": [*actions],
        "Resource": [*resources],
    }
    return {**statement, "Condition": condition} if condition else statement


def _document(statements: Sequence[Statement]) -> dict[str, Any]:
    result, times = list[Statement](), Counter[str]()
    for statement in statements:
        # IAM takes each id once, and those of the buckets lake-1 and lake1 are alike.
        times[statement["Sid"]] += 1
        again = times[statement["Sid"]]
        result.append({**statement, "Sid": statement["Sid"] + (f"No{again}" if again > 1 else "")})
    return {"Version": "2012-10-17", "Statement": result}
