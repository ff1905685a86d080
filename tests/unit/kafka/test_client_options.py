"""Options that librdkafka does not take."""

from __future__ import annotations

import pytest

from lakeingest.config import Source
from lakeingest.errors import UsageError
from lakeingest.kafka.broker import Broker

USER, PASSWORD = "ingest", "hush-a1b2c3"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"security.protocol": PASSWORD}, 'Invalid value "…" for configuration property "security.protocol"'),
        ({"sasl.pasword": PASSWORD}, 'No such configuration property: "sasl.pasword"'),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], said: str) -> None:
    """A mistake of the file, before anybody is asked; its value is not repeated."""
    with pytest.raises(UsageError, match=r"(?s)source\.options cannot be used.*cure: correct them") as caught:
        Broker(Source.model_validate({"topics": ["any"], "options": options}), "127.0.0.1:1")
    assert said in caught.value.what
    assert PASSWORD not in str(caught.value)
