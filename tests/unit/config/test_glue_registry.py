"""A pipeline file that names AWS Glue Schema Registry."""

from __future__ import annotations

from typing import Any

import pytest

from lakeingest.config import PipelineConfig, file
from lakeingest.errors import PipelineFileError


def config_of(registry: Any, **decode: Any) -> PipelineConfig:
    values = {
        "name": "a",
        "source": {"topics": ["a"]},
        "table": {"path": "s3a://lake/a"},
        "decode": {"value": {"format": "avro"}, **decode},
        "registry": registry,
    }
    return file.from_mapping(values)


def test_its_defaults() -> None:
    """An empty part is Glue with the defaults of its serializers."""
    glue = config_of({"glue": {}}).registry.glue
    assert glue is not None
    assert (glue.registry, glue.region, glue.endpoint) == ("default-registry", None, None)
    assert config_of({}).registry.glue is None


@pytest.mark.parametrize(
    ("registry", "decode", "said"),
    [
        ({"glue": {}, "url": "http://r"}, {}, "names two registries, glue and url; drop one of the two"),
        ({"glue": {}, "options": {"ssl.ca.location": "x"}}, {}, "names two registries, glue and options"),
        ({"glue": {"name": "lake"}}, {}, "registry.glue.name"),
        ({"glue": {"registry": "a/b"}}, {}, "registry.glue.registry"),
        ({"glue": {"registry": ""}}, {}, "registry.glue.registry"),
        ({"glue": {"region": ""}}, {}, "registry.glue.region"),
        ({"glue": {"endpoint": "https://me:secret@x"}}, {}, "registry.glue.endpoint"),
        ({"glue": {}}, {"value": {"format": "avro", "subject": "record"}}, "has no meaning with registry.glue"),
    ],
)
def test_what_does_not_go_together(registry: Any, decode: Any, said: str) -> None:
    """The mistake is told with its place and its cure, and no secret with it."""
    with pytest.raises(PipelineFileError) as refused:
        config_of(registry, **decode)
    told = str(refused.value)
    assert said in told
    assert "secret" not in told
