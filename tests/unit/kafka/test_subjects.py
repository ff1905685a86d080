"""How schemas are named and told apart, and what options a registry's client takes."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from lakeingest.config import Registry as Config
from lakeingest.errors import UsageError
from lakeingest.kafka.registry import RegisteredSchema, RegistryClient, subject


def asking(url: str, *, seconds: float = 2.0, **options: str) -> RegistryClient:
    """A registry as a pipeline has it; the names of options with _ for the dots."""
    given = {name.replace("_", "."): value for name, value in options.items()}
    return RegistryClient(Config.model_validate({"wait": datetime.timedelta(seconds=seconds), "options": given}), url)


@pytest.mark.parametrize(
    ("strategy", "side", "name", "called"),
    [
        ("topic", "value", "x.R", "t-value"),
        ("topic", "key", None, "t-key"),
        ("record", "value", "x.R", "x.R"),
        ("record", "key", "x.R", "x.R"),
        ("topic_record", "value", "x.R", "t-x.R"),
        ("record", "value", None, ""),
        ("topic_record", "value", None, ""),
    ],
)
def test_subjects_are_named_as_producers_name_them(strategy: Any, side: Any, name: str | None, called: str) -> None:
    """By topic and side, by record, or by both; a schema without a name has none of the latter two."""
    assert subject(strategy, "t", side, name) == called


def test_a_fingerprint_is_of_the_text() -> None:
    """The id does not count, type, text and references do."""
    same = {RegisteredSchema.of(id, "AVRO", "a").fingerprint for id in (1, 2)}
    others = [
        RegisteredSchema.of(1, "JSON", "a"),
        RegisteredSchema.of(1, "AVRO", "b"),
        RegisteredSchema.of(1, "AVRO", "a", (("n", "t"),)),
    ]
    assert len(same | {writer.fingerprint for writer in others}) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"basic_auth_user_info": "hunter2"}, "must be in the form of {username}:{password}"),
        ({"basic_auth_userinfo": "me:hunter2"}, "Unrecognized properties: basic.auth.userinfo"),
        ({"bearer_auth_token": "hunter2"}, "Unrecognized properties: bearer.auth.token"),
        ({"bearer_auth_credentials_source": "hunter2"}, "Unrecognized bearer.auth.credentials.source"),
        ({"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": "hunter2"}, "logical.cluster"),
        ({"ssl_ca_location": "/nowhere/hunter2.pem"}, "No such file"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], said: str) -> None:
    """They are a mistake of the file, told before anything is asked, without their values."""
    with pytest.raises(UsageError, match=r"registry\.options cannot be used: ") as caught:
        asking("http://127.0.0.1:1", **options)
    assert said in str(caught.value)
    assert "hunter2" not in f"{caught.value}{caught.value!r}{caught.value.__cause__}"
