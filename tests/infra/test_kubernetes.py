"""The manifests by the schemas of Kubernetes and of the Spark operator; spoilt ones are refused."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML
from support.servers import infra_tools

pytestmark = pytest.mark.infra
FOLDER = infra_tools.INFRA / "kubernetes"
VERSIONS = ("1.31", "1.34")
"""The oldest that are looked at, and the newest."""
OPERATOR = ("github.com/kubeflow/spark-operator/v2", "v2.3.0", "h1:cYN/331gwkdZ0S/ai72JQoUv7UK52O2OQOWFpl8XhPc=")
Manifest = dict[str, Any]


def documents(path: Path) -> list[Any]:
    return list(YAML(typ="safe").load_all(path))


MANIFESTS = [
    each
    for path in sorted(FOLDER.glob("*.yaml"))
    for each in documents(path)
    if each["kind"] not in ("Kustomization", "SparkApplication")
]


def refusals(manifests: list[Manifest], folder: Path, version: str) -> list[str]:
    """What the strict schemas of a version say, manifest by manifest."""
    told = []
    for at, manifest in enumerate(manifests):
        (folder / f"{at}.json").write_text(json.dumps(manifest))
    words = [folder / f"{at}.json" for at in range(len(manifests))]
    done = infra_tools.run("checks", "kubernetes-validate", "--strict", "-k", version, *words)
    lines = done.stdout.splitlines() + done.stderr.splitlines()
    for at in range(len(manifests)):
        (line,) = (line for line in lines if f"/{at}.json " in line)
        told.append("" if line.startswith("INFO") and " passed " in line else line)
    return told


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_accept_the_manifests(version: str, tmp_path: Path) -> None:
    """Strictly: a field that the schema does not know is a mistake."""
    assert refusals(MANIFESTS, tmp_path, version) == [""] * len(MANIFESTS)


def _container(manifest: Manifest) -> Any:
    return manifest["spec"]["template"]["spec"]["containers"][0]


SPOILT: dict[str, tuple[str, Callable[[Manifest], object], str]] = {
    "a wrong field": ("Deployment", lambda m: _container(m).update(readynessProbe={}), "readynessProbe"),
    "a wrong type": ("Deployment", lambda m: m["spec"].update(replicas="one"), "replicas"),
    "a missing field": ("Deployment", lambda m: m["spec"].pop("selector"), "selector"),
    "a probe without a port": ("Deployment", lambda m: _container(m)["livenessProbe"]["httpGet"].pop("port"), "port"),
    "no schedule": ("CronJob", lambda m: m["spec"].pop("schedule"), "schedule"),
    "a wrong level": ("CronJob", lambda m: m["spec"].update(containers=[]), "containers"),
    "a port as a text": ("NetworkPolicy", lambda m: m["spec"].update(policyTypes="Ingress"), "policyTypes"),
    "bytes in a ConfigMap": ("ConfigMap", lambda m: m["data"].update(number=1), "data"),
}


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name → what was said; the schemas are asked once."""
    made = []
    for kind, spoil, _ in SPOILT.values():
        manifest = copy.deepcopy(next(each for each in MANIFESTS if each["kind"] == kind))
        spoil(manifest)
        made.append(manifest)
    told = refusals(made, tmp_path_factory.mktemp("spoilt"), VERSIONS[-1])
    return dict(zip(SPOILT, told, strict=True))


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_manifest_is_refused(name: str, spoilt: dict[str, str]) -> None:
    """And what is wrong with it is named."""
    assert SPOILT[name][2] in spoilt[name]


@pytest.fixture(scope="module")
def operator() -> jsonschema.Draft202012Validator:
    """The schema that the operator's own CRD has, where unknown fields are mistakes."""
    crds = infra_tools.go_module(*OPERATOR) / "config" / "crd" / "bases"
    (crd,) = documents(crds / "sparkoperator.k8s.io_sparkapplications.yaml")
    (version,) = (each for each in crd["spec"]["versions"] if each["name"] == "v1beta2")
    schema = version["schema"]["openAPIV3Schema"]
    _close(schema)
    return jsonschema.Draft202012Validator(schema)


def _close(schema: Any) -> None:
    """Kubernetes drops what a CRD does not name; here it is refused."""
    if isinstance(schema, list):
        for each in schema:
            _close(each)
    elif isinstance(schema, dict):
        free = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
        if isinstance(schema.get("properties"), dict) and not free:
            schema["additionalProperties"] = False
        for each in schema.values():
            _close(each)


def application() -> Manifest:
    (found,) = (each for each in documents(FOLDER / "sparkapplication.yaml") if each["kind"] == "SparkApplication")
    # The schema says of metadata that it is an object, and no more.
    return {**found, "metadata": {}}


def test_the_operator_accepts_its_application(operator: jsonschema.Draft202012Validator) -> None:
    assert [error.message for error in operator.iter_errors(application())] == []


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda m: m["spec"].update(executors={}), "executors"),
        (lambda m: m["spec"].update(mode="clustr"), "clustr"),
        (lambda m: m["spec"].pop("type"), "type"),
        (lambda m: m["spec"]["driver"].update(memory=3), "3 is not of type"),
        (lambda m: m["spec"]["restartPolicy"].update(type="Sometimes"), "Sometimes"),
        (lambda m: m["spec"]["executor"].update(instances="two"), "two"),
    ],
)
def test_the_operator_refuses_a_spoilt_one(
    spoil: Callable[[Manifest], object], told: str, operator: jsonschema.Draft202012Validator
) -> None:
    """A wrong field, value or type."""
    manifest = copy.deepcopy(application())
    spoil(manifest)
    assert any(told in error.message for error in operator.iter_errors(manifest))


def test_kustomize_builds_it() -> None:
    """What `kubectl apply -k` would send: four kinds, without a cluster."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is missing, which has kustomize in it")
    done = subprocess.run([kubectl, "kustomize", FOLDER], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    kinds = [each["kind"] for each in YAML(typ="safe").load_all(done.stdout)]
    assert sorted(kinds) == ["ConfigMap", "Deployment", "NetworkPolicy", "ServiceAccount"]
