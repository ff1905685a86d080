"""What a pipeline sets for its buckets, and what it refuses, in a session that is somebody's."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from lakeingest.config import Storage
from lakeingest.errors import SetupError, UsageError
from lakeingest.spark import failures, jvm, s3a

OPTIONS = {"endpoint": "http://s3:1", "access_key": "k", "secret_key": "hush", "path_style": True}


class Session(SimpleNamespace):
    """Each is itself alone, as Spark's are."""

    __hash__ = object.__hash__


def somebodys(core_site: Mapping[str, str] = MappingProxyType({}), **options: str) -> SparkSession:
    """A session that somebody started, as far as its settings and its platform's core-site.xml go."""
    found = {name.replace("__", "."): value for name, value in options.items()}
    conf = SimpleNamespace(get=lambda name, default=None: found.get(name, default), set=found.__setitem__, all=found)
    java = SimpleNamespace(hadoopConfiguration=lambda: SimpleNamespace(get=core_site.get))
    return cast(SparkSession, Session(conf=conf, version="4.1.1", _jsc=java))


def settings(spark: SparkSession) -> dict[str, str]:
    return cast(Any, spark.conf).all  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"endpoint": "http://s3:2"}, "http://s3:2 (region us-east-1, path style)"),
        ({"region": "eu-west-1"}, "http://s3:1 (region eu-west-1, path style)"),
        ({"path_style": False}, "http://s3:1 (region us-east-1, host style)"),
        ({"endpoint": None}, "AWS (region not set, path style)"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_bucket_that_is_open_elsewhere_is_refused(named: str, change: dict[str, Any], told: str) -> None:
    """Hadoop would go on with the store that it opened first, and the rows would land there."""
    spark = somebodys()
    s3a.let_in(spark, Storage.model_validate(OPTIONS), [f"s3a://{named}/t", "/tmp/q"])
    before = dict(settings(spark))
    with pytest.raises(UsageError) as caught:
        s3a.let_in(somebodys(), Storage.model_validate({**OPTIONS, **change}), [f"s3://{named}/u"])
    assert caught.value.what.startswith(
        f"bucket {named} was opened in this process at http://s3:1 (region us-east-1, path"
    )
    assert told in caught.value.what
    assert caught.value.cure == "run this pipeline in a process of its own"
    assert settings(spark) == before
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"encryption": {"type": "SSE-S3"}}, "encryption.algorithm, fs.s3a.encryption.key"),
        ({"encryption": {"type": "SSE-C", "key": "aHVzaGh1c2hodXNoaHVzaGh1c2hodXNoaHVzaGh1c2g="}}, "encryption.key"),
        ({"role": {"arn": "arn:aws:iam::123456789012:role/a"}}, "assumed.role.arn"),
        ({"requester_pays": True}, "requester.pays.enabled"),
    ],
)
def test_a_bucket_that_is_open_otherwise_is_refused(named: str, change: dict[str, Any], told: str) -> None:
    """Hadoop would go on without the second pipeline's encryption, or with the first one's role."""
    first = {**OPTIONS, "endpoint": "https://s3", "encryption": {"type": "SSE-C", "key": "a2" * 21 + "a="}}
    s3a.let_in(somebodys(), Storage.model_validate(first), [f"s3a://{named}/t"])
    with pytest.raises(UsageError) as caught:
        s3a.let_in(somebodys(), Storage.model_validate({**first, **change}), [f"s3a://{named}/u"])
    assert f"with another fs.s3a.{told}: Spark would go on" in caught.value.what
    assert "aHVza" not in str(caught.value)
    assert "a2a2" not in str(caught.value)


def test_what_a_pipeline_sets_is_its_own_buckets() -> None:
    """Nothing general is set, so that the store of another bucket stays what it is."""
    spark = somebodys(fs__s3a__endpoint="http://theirs")
    storage = {**OPTIONS, "options": {"fs.s3a.bucket.c.endpoint": "x", "fs.s3a.multipart.size": "5M"}}
    s3a.let_in(spark, Storage.model_validate(storage), ["s3a://b.c/t", "s3n://d/q"])
    assert settings(spark).pop("fs.s3a.endpoint") == "http://theirs"
    assert settings(spark).pop("fs.s3a.bucket.c.endpoint") == "x"
    assert all(name.startswith(("fs.s3a.bucket.b.c.", "fs.s3a.bucket.d.")) for name in settings(spark))
    assert settings(spark)["fs.s3a.bucket.b.c.multipart.size"] == "5M"


def test_what_the_owner_of_a_session_has_set_for_a_bucket_stays(named: str) -> None:
    """A proxy in front of one bucket, say; what lakeingest has set itself follows the pipeline file."""
    spark = somebodys(**{f"fs.s3a.bucket.{named}.endpoint": "http://proxy"})
    for key in ("old", "new"):
        s3a.let_in(spark, Storage.model_validate({**OPTIONS, "secret_key": key}), [f"s3a://{named}/t"])
        assert settings(spark)[f"fs.s3a.bucket.{named}.endpoint"] == "http://proxy"
        assert settings(spark)[f"fs.s3a.bucket.{named}.secret.key"] == key


def test_a_store_that_the_session_was_started_with_is_the_same(named: str) -> None:
    """A pipeline that says where the bucket is, and one that leaves it to the session, mean one place."""
    general = {"endpoint": "http://s3:1/", "endpoint.region": "us-east-1", "path.style.access": "true"}
    spark = somebodys(**{f"spark.hadoop.fs.s3a.{name}": value for name, value in general.items()})
    s3a.let_in(spark, Storage(), [f"s3a://{named}/t"])
    s3a.let_in(spark, Storage.model_validate(OPTIONS), [f"s3a://{named}/t"])


STORE = "spark__delta__logStore__{}__impl"


@pytest.mark.parametrize(
    ("options", "paths", "named"),
    [
        ({}, ["s3a://b/t", "s3a://b/q"], ["s3a"]),
        ({}, ["s3://b/t", "s3n://b/q", "/tmp/r"], ["s3", "s3n"]),
        ({STORE.format("s3a"): "x"}, ["s3a://b/t", "s3://b/q"], ["s3"]),
        ({STORE.format("s3a"): "x"}, ["s3a://b/t"], []),
        ({}, ["/tmp/t"], []),
        ({"spark__databricks__clusterUsageTags__sparkVersion": "17"}, ["s3://b/t"], []),
    ],
)
def test_a_session_without_a_safe_log_store_is_told_how(
    options: dict[str, str], paths: list[str], named: list[str]
) -> None:
    """For the schemes that the pipeline's paths have, and only these, with the options to paste."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        s3a.check_file_system(somebodys(**options), paths, stacklevel=1)
    assert len(caught) == bool(named)
    said = str(caught[0].message) if caught else ""
    for scheme in ("s3", "s3a", "s3n"):
        assert (f"--conf spark.delta.logStore.{scheme}.impl={jvm.LOG_STORE}" in said) is (scheme in named)
        assert (f"--conf spark.hadoop.fs.{scheme}.impl=" in said) is (scheme in named and scheme != "s3a")


EMRFS = "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"
S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem"


@pytest.mark.parametrize("wired", [True, False], ids=["with the log store", "without"])
@pytest.mark.parametrize(
    ("core_site", "options", "scheme"),
    [
        ({"fs.s3.impl": EMRFS}, {}, "s3"),
        ({"fs.s3a.impl": EMRFS}, {}, "s3a"),
        ({}, {"spark__hadoop__fs__s3__impl": EMRFS}, "s3"),
        ({"fs.s3.impl": S3A}, {"spark__hadoop__fs__s3__impl": EMRFS}, "s3"),
    ],
)
def test_emrfs_is_refused_by_its_name(
    core_site: dict[str, str], options: dict[str, str], scheme: str, wired: bool
) -> None:
    """It overwrites: whichever log store writes through it, two drivers lose commits."""
    options |= {STORE.format(scheme): "x"} if wired else {}
    with pytest.raises(
        SetupError, match=rf"^{scheme}:// is EMRFS in this Spark session \(fs\.{scheme}\.impl\)"
    ) as caught:
        s3a.check_file_system(somebodys(core_site, **options), [f"{scheme}://b/t"], stacklevel=1)
    assert caught.value.cure == f"start the session with --conf spark.hadoop.fs.{scheme}.impl={S3A}"


@pytest.mark.parametrize(
    ("core_site", "options", "path"),
    [
        ({"fs.s3.impl": EMRFS}, {}, "s3a://b/t"),
        ({"fs.s3.impl": EMRFS}, {"spark__hadoop__fs__s3__impl": S3A}, "s3://b/t"),
        ({"fs.s3.impl": EMRFS}, {}, "/tmp/t"),
    ],
)
def test_what_is_not_written_through_emrfs_is_not_refused(
    core_site: dict[str, str], options: dict[str, str], path: str
) -> None:
    """A cluster may have EMRFS for other jobs."""
    options |= {STORE.format(scheme): "x" for scheme in ("s3", "s3a")}
    s3a.check_file_system(somebodys(core_site, **options), [path], stacklevel=1)


@pytest.mark.parametrize(
    ("storage", "environment", "source"),
    [
        ({"access_key": "k", "secret_key": "s"}, {}, "storage.access_key and storage.secret_key"),
        ({"options": {"fs.s3a.aws.credentials.provider": "x"}}, {}, "storage.options"),
        ({}, {"AWS_ACCESS_KEY_ID": "k"}, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment"),
        ({}, {}, "the platform (no storage.access_key, no AWS_ACCESS_KEY_ID)"),
    ],
)
def test_it_is_told_where_the_keys_came_from(
    monkeypatch: pytest.MonkeyPatch, named: str, storage: dict[str, Any], environment: dict[str, str], source: str
) -> None:
    """Whoever reads of a wrong key need not look for it in four places."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    bucket = named.replace("_", "-")
    s3a.let_in(somebodys(), Storage.model_validate(storage), [f"s3a://{bucket}/t"])
    meant = failures.translate(f"s3a://{bucket}/t", RuntimeError("InvalidAccessKeyId"))
    assert f"which comes from {source}; then run again" in meant.cure


def test_it_is_told_that_the_session_brought_the_keys(named: str) -> None:
    """Databricks and EMR have them set for the whole cluster."""
    for option in ("fs.s3a.access.key", f"spark.hadoop.fs.s3a.bucket.{named}.access.key"):
        s3a.let_in(somebodys(**{option: "k"}), Storage(), [f"s3a://{named}/t"])
        meant = failures.translate(f"s3a://{named}/t", RuntimeError("Status Code: 403"))
        assert "which come from fs.s3a.access.key of the Spark session, and their" in meant.cure
