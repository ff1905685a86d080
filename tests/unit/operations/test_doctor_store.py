"""What the doctor says of a store that cannot be asked at all."""

from __future__ import annotations

import pytest

from lakeingest.config import Storage
from lakeingest.operations import doctor


def test_an_address_of_the_environment_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 takes it from there, and has an error of Python's own for it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "store:9000")
    (found,) = doctor._bucket(Storage(region="eu-west-1"), "s3a://lake/flights")
    assert (found.about, found.state) == ("store", "bad")
    assert "Invalid endpoint: store:9000" in found.what
