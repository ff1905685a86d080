"""The probes of the manifests ask for what a run answers."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from lakeingest.ingest.listeners.endpoint import Endpoint

KUBERNETES = Path(__file__).resolve().parents[2] / "infra" / "kubernetes"


def probes(found: Any) -> Iterator[tuple[str, Any]]:
    """Each probe, wherever it stands in a manifest."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name.endswith("Probe"):
                yield name, value
            else:
                yield from probes(value)
    elif isinstance(found, list):
        for each in found:
            yield from probes(each)


def answer(path: str) -> int:
    """The status of a run that has not looked for records yet."""
    endpoint = Endpoint("127.0.0.1:0", ["flights"])
    try:
        with urllib.request.urlopen(endpoint.url + path, timeout=60) as got:
            return int(got.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code
    finally:
        endpoint.close()


def test_each_probe_is_answered() -> None:
    """Alive from the first second, ready later; a path that nobody serves would be 404."""
    manifest = next(YAML(typ="safe").load_all(KUBERNETES / "deployment.yaml"))
    asked = {name: probe["httpGet"]["path"] for name, probe in probes(manifest)}
    assert asked.keys() == {"startupProbe", "livenessProbe", "readinessProbe"}
    answers = {name: answer(path) for name, path in asked.items()}
    assert answers == {"startupProbe": 200, "livenessProbe": 200, "readinessProbe": 503}
    assert answer("/healthy") == 404
