"""What infra/ holds fits the package and itself, as far as it can be told without the tools of `make test-infra`."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.main import get_command

import lakeingest
from lakeingest.cli import app, pipeline_file
from lakeingest.config import PipelineConfig, file
from lakeingest.errors import PipelineFileError
from lakeingest.local import artifacts
from lakeingest.spark import jvm, settings
from lakeingest.spark.platforms import local

ROOT = Path(lakeingest.__file__).parent.parent
INFRA = ROOT / "infra"
KUBERNETES = INFRA / "kubernetes"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
VARIABLES = dict.fromkeys(("KAFKA_BOOTSTRAP_SERVERS", "KAFKA_USER", "KAFKA_PASSWORD"), "broker:9096")
LABEL = "app.kubernetes.io/instance"


def documents(path: Path) -> list[Any]:
    return list(YAML(typ="safe").load_all(path))


def manifests(kind: str | None = None) -> list[Any]:
    found = [each for path in sorted(KUBERNETES.glob("*.yaml")) for each in documents(path)]
    return [each for each in found if kind in (None, each["kind"])]


def pods() -> Iterator[tuple[str, Any]]:
    """Kind → spec of its pods."""
    for each in manifests("Deployment"):
        yield each["kind"], each["spec"]["template"]
    for each in manifests("CronJob"):
        yield each["kind"], each["spec"]["jobTemplate"]["spec"]["template"]


def spark_options() -> ModuleType:
    sys.path.insert(0, str(INFRA / "emr"))
    try:
        return importlib.import_module("spark_options")
    finally:
        sys.path.pop(0)


def configured(text: str, tmp_path: Path) -> PipelineConfig:
    (tmp_path / "flights.yaml").write_text(text, encoding="utf-8")
    return file.read(tmp_path / "flights.yaml", VARIABLES)


@pytest.mark.parametrize("path", sorted(INFRA.rglob("*.y*ml")), ids=lambda path: path.relative_to(INFRA).as_posix())
def test_yaml_is_yaml(path: Path) -> None:
    """Each file can be parsed, and no key stands in it twice."""
    assert documents(path)


@pytest.mark.parametrize("path", [INFRA / "pipelines" / "flights.yaml", INFRA / "databricks" / "flights.yaml"])
def test_a_pipeline_file_is_good(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lakeingest check` says so."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    pipeline_file.check([path])


def test_the_config_map_holds_the_pipeline(tmp_path: Path) -> None:
    """It is the example of infra/pipelines but for how S3 is reached; a spoilt one is refused."""
    (config_map,) = manifests("ConfigMap")
    text = config_map["data"]["flights.yaml"]
    found, wanted = configured(text, tmp_path), file.read(INFRA / "pipelines" / "flights.yaml", VARIABLES)
    assert found.storage.options.keys() == {"fs.s3a.aws.credentials.provider"}
    assert found.model_copy(update={"storage": wanted.storage}) == wanted
    with pytest.raises(PipelineFileError):
        configured(text.replace("topics:", "topic:"), tmp_path)


def test_databricks_runs_the_same_pipeline() -> None:
    """Its table alone is another: the catalog's own."""
    found, wanted = (file.read(INFRA / name / "flights.yaml", VARIABLES) for name in ("databricks", "pipelines"))
    kept = {"table": wanted.table, "quarantine": wanted.quarantine}
    assert found.model_copy(update=kept) == wanted
    assert not found.paths


def test_each_variable_is_given() -> None:
    """What the pipeline file names comes from the Secret, on Databricks from the cluster; and nothing else is there."""
    named = set(re.findall(r"\$\{(\w+)\}", (INFRA / "pipelines" / "flights.yaml").read_text()))
    assert named == VARIABLES.keys()
    text = (KUBERNETES / "deployment.yaml").read_text()
    assert {name for name in VARIABLES if name in text} == named
    (bundle,) = documents(INFRA / "databricks" / "databricks.yml")
    (cluster,) = bundle["resources"]["jobs"]["flights"]["job_clusters"]
    assert cluster["new_cluster"]["spark_env_vars"].keys() == named


def test_the_manifests_fit_each_other() -> None:
    """A pod finds its ConfigMap and its account; a policy is for all of them; what is applied is there."""
    names = {(each["kind"], each["metadata"]["name"]) for each in manifests() if "metadata" in each}
    for _, pod in pods():
        (volume,) = (each for each in pod["spec"]["volumes"] if "configMap" in each)
        assert ("ConfigMap", volume["configMap"]["name"]) in names
        assert ("ServiceAccount", pod["spec"]["serviceAccountName"]) in names
        (policy,) = manifests("NetworkPolicy")
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (deployment,) = manifests("Deployment")
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    labels = [pod["metadata"]["labels"][LABEL] for _, pod in pods()]
    # Else the pods of the CronJob would be the Deployment's.
    assert len(set(labels)) == len(labels)
    (kustomization,) = manifests("Kustomization")
    assert all((KUBERNETES / name).is_file() for name in kustomization["resources"])


def test_a_port_is_the_one_that_is_listened_on() -> None:
    """The policy lets in where the run listens, and out to the port that the brokers have in the docs of MSK SCRAM."""
    (deployment,) = manifests("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    port = int(container["args"][container["args"].index("--listen") + 1].rpartition(":")[2])
    assert container["ports"] == [{"name": "metrics", "containerPort": port}]
    (policy,) = manifests("NetworkPolicy")
    assert policy["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": port}]


def test_a_pod_may_do_little() -> None:
    """It is nobody's root, its files are read-only, and it has limits; one writer at a time."""
    for kind, pod in pods():
        (container,) = pod["spec"]["containers"]
        assert pod["spec"]["securityContext"]["runAsNonRoot"], kind
        assert not pod["spec"]["automountServiceAccountToken"], kind
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, kind
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"], kind
        # More than the 25 seconds that a batch is given.
        assert pod["spec"]["terminationGracePeriodSeconds"] > 25, kind
    (deployment,) = manifests("Deployment")
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]["type"]) == (1, "Recreate")
    assert {cron["spec"]["concurrencyPolicy"] for cron in manifests("CronJob")} == {"Forbid"}


def test_the_user_is_the_image_s() -> None:
    """The pod runs as the user that the image makes, who may write where the pod mounts a volume."""
    image = (INFRA / "Dockerfile").read_text()
    (user,) = re.findall(r"useradd --uid (\d+)", image)
    assert f"\nUSER {user}\n" in image
    (state,) = re.findall(r"LAKEINGEST_STATE=(\S+)", image)
    for kind, pod in pods():
        assert str(pod["spec"]["securityContext"]["runAsUser"]) == user, kind
        (container,) = pod["spec"]["containers"]
        assert {"/tmp", state} <= {each["mountPath"] for each in container["volumeMounts"]}, kind


def test_versions_are_the_package_s() -> None:
    """Images have the version of the package; Spark is the pinned one."""
    images = [pod["spec"]["containers"][0]["image"] for _, pod in pods()]
    (application,) = manifests("SparkApplication")
    assert {*images, application["spec"]["image"]} == {f"lakeingest:{VERSION}", f"lakeingest-spark:{VERSION}"}
    (pinned,) = re.findall(r"^pyspark==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert application["spec"]["sparkVersion"] == pinned
    assert f"FROM spark:{pinned}-" in (INFRA / "Dockerfile").read_text()


def test_the_operator_s_session_is_as_ours() -> None:
    """What a session needs that somebody else starts is in one place."""
    (application,) = manifests("SparkApplication")
    assert application["spec"]["sparkConf"] == spark_options().shared()


@pytest.mark.parametrize(("release", "spark"), [("emr-spark-8.0.0", "4.0"), ("emr-spark-8.1.0", "4.1")])
def test_options_for_emr(release: str, spark: str) -> None:
    """Delta is the release's own; Kafka, Avro and the log store are ours, as they were tested with its Spark."""
    module = spark_options()
    options = module.on_emr("s3://work/code", "s3://assets/files.zip", release)
    assert options["spark.delta.logStore.s3a.impl"] == jvm.LOG_STORE
    assert settings.AVRO_LIMITS in options["spark.executor.extraJavaOptions"]
    jars = options["spark.jars"].split(",")
    assert sum(jar.startswith("/usr/share/aws/delta/") for jar in jars) == 2
    assert "s3://work/code/jars/lakeingest.jar" in jars
    tested = artifacts.listed(f"spark-{spark}", (ROOT / "tests" / "matrix" / f"spark-{spark}-jars.txt").read_text())
    # The login of MSK was tried with the pinned Spark alone.
    ours = {each for each in module.lacking(release) if each.name != "aws-msk-iam-auth"}
    assert ours < set(tested)


def test_a_release_that_nobody_knows() -> None:
    """Its jars would be guessed, and Spark end in an error of Java's linker."""
    with pytest.raises(
        SystemExit, match=r"^for emr-7\.13\.0 .* name one of emr-spark-8\.0\.0, emr-spark-8\.1\.0, or add"
    ):
        spark_options().on_emr("s3://work/code", "s3://assets/files.zip", "emr-7.13.0")


def test_the_images_have_what_is_asked_of_them() -> None:
    """The endpoint needs an extra, and so does Glue."""
    installed = re.findall(r"lakeingest\[([\w,]+)\]", (INFRA / "Dockerfile").read_text())
    (deployment,), (application,) = manifests("Deployment"), manifests("SparkApplication")
    for found in (deployment["spec"]["template"]["spec"]["containers"][0]["args"], application["spec"]["arguments"]):
        assert "--listen" in found
    assert len(installed) == 2
    assert all({"metrics", "glue"} <= set(extras.split(",")) for extras in installed)


def test_the_image_has_the_jars() -> None:
    """The step that fetches them calls what a session is started with."""
    (step,) = re.findall(r'RUN python -c "(.*?)"', (INFRA / "Dockerfile").read_text())
    assert step == "from lakeingest.spark.platforms import local; local.jars()"
    assert callable(local.jars)


def test_the_tools_of_infra_are_not_the_project_s() -> None:
    """They are pinned in files of infra/, and not in constraints.txt; what both have is of one version for the CDK."""
    pinned = _pins(ROOT / "constraints.txt")
    files = {path.stem.removeprefix("requirements-"): _pins(path) for path in INFRA.glob("requirements-*.txt")}
    for tool in ("aws-cdk-lib", "checkov", "apache-airflow", "dagster", "databricks-bundles", "kubernetes-validate"):
        assert tool not in pinned
        assert [name for name, pins in files.items() if tool in pins], tool
    # The stack imports lakeingest.
    assert {name: version for name, version in files["cdk"].items() if pinned.get(name, version) != version} == {}
    assert {"pydantic", "ruamel.yaml"} <= files["cdk"].keys()


def _pins(path: Path) -> dict[str, str]:
    """Distribution → version; each line pins one."""
    lines = path.read_text().lower().replace("_", "-").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_the_unit_is_for_several_pipelines() -> None:
    """Two share folders, so a user, and no port; and systemd looks for exit codes in those of ExecStart alone."""
    text = (INFRA / "systemd" / "lakeingest@.service").read_text(encoding="utf-8")
    said = re.findall(r"(?m)^(\w+)=(.*)$", text)
    assert [value for name, value in said if name == "User"] == ["lakeingest"]
    assert "--listen ${LISTEN}" in dict(said)["ExecStart"]
    # The later one counts, so that each pipeline's own variables do.
    names = [name for name, value in said if name == "EnvironmentFile" or value.startswith("LISTEN=")]
    assert names == ["Environment", "EnvironmentFile"]
    assert "ExecStartPre" not in dict(said)
    assert "2" in dict(said)["RestartPreventExitStatus"].split()


def maintenances() -> Iterator[list[str]]:
    """The words of each command that keeps tables in shape."""
    (cron,) = (each for each in manifests("CronJob") if "maintenance" in each["metadata"]["name"])
    yield cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    for name in ("cron/lakeingest", "systemd/lakeingest-maintain@.service"):
        (line,) = re.findall(r"(?m)/bin/lakeingest (maintain .*)$", (INFRA / name).read_text(encoding="utf-8"))
        yield shlex.split(line)
    (call,) = re.findall(
        r'lakeingest\("maintain", FILE, (.*)\)', (INFRA / "orchestrators" / "airflow_dag.py").read_text()
    )
    yield ["maintain", "FILE", *(word.strip('" ') for word in call.split(","))]


def test_schedulers_call_maintain() -> None:
    """By cron, by a timer, in Kubernetes and in Airflow: each with options that the command has."""
    every = [*maintenances()]
    assert len(every) == 4
    for name, *words in every:
        command = get_command(app).commands[name]  # type: ignore[attr-defined]
        assert command.make_context(name, words).params["most_time"] == "1 hour", words


def test_the_timer_is_of_its_service() -> None:
    """Without Unit= it starts the service of its own name, whose user is that of the runs: they share folders."""
    folder = INFRA / "systemd"
    timer = (folder / "lakeingest-maintain@.timer").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^(?:Unit|OnCalendar)=(.*)$", timer) == ["*-*-* 02:30:00 UTC"]
    users = {re.findall(r"(?m)^User=(.*)$", path.read_text(encoding="utf-8"))[0] for path in folder.glob("*.service")}
    assert users == {"lakeingest"}
    assert (folder / "lakeingest-maintain@.service").is_file()


def test_what_runs_elsewhere_comes_into_msk_by_iam() -> None:
    """The stack's roles have the rights for it; both clients need more than that: a signer, and a module for Java."""
    for name in ("Dockerfile", "emr/package.py", "emr/bootstrap.sh"):
        text = (INFRA / name).read_text(encoding="utf-8")
        extras = re.findall(r"[\[\"]((?:\w+,)+gate)[\]\"]", text)
        assert extras
        assert all("msk" in each.split(",") for each in extras), name
    options = spark_options()
    (module,) = (each for each in artifacts.listed("spark") if each.name == "aws-msk-iam-auth")
    assert module in options.lacking(options.RELEASE)
