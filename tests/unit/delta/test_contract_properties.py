"""The contract among a table's properties: in words, kept up to date, and nothing else touched."""

from __future__ import annotations

from typing import Any

import pytest

from lakeingest.config import PipelineConfig
from lakeingest.config.file import from_mapping
from lakeingest.delta import receipt, table_properties
from lakeingest.errors import UsageError
from lakeingest.ingest import preflight
from lakeingest.schema.ledger import SchemaLedger


def config(promised: dict[str, Any] | None = None, **parts: Any) -> PipelineConfig:
    values: dict[str, Any] = {
        "name": "flights",
        "source": {"topics": ["flights"], "bootstrap_servers": "nowhere:1"},
        "schema": {"columns": "n INT"},
        "partition": [{"by": "time", "every": "hour"}],
        "table": {"path": "s3a://lake/flights"},
    }
    return from_mapping({**values, **parts, **({"contract": promised} if promised is not None else {})})


WHOLE = {
    "owners": ["Flights <data@example.com>", "token-team"],
    "freshness": "300 s",
    "completeness": {"late": "90 seconds"},
    "retention": "1 week",
    "compatibility": "FORWARD",
    "may_replay": ["ada", "grace"],
    "may_accept": [],
}


def words(properties: dict[str, str]) -> dict[str, str]:
    """Without the packed one."""
    return {
        n.removeprefix("lakeingest.contract."): v for n, v in properties.items() if n[-16:].strip("0123456789abcdef")
    }


def test_a_new_table_says_its_contract_in_words() -> None:
    """For whoever finds the table, with any tool."""
    made = config(WHOLE, readers=["trino"])
    said = words(table_properties.contract(made))
    assert said == {
        "owners": "Flights <data@example.com>, token-team",
        "freshness": "5 minutes",
        "completeness": "s3a://lake/flights_completeness",
        "late": "90 seconds",
        "retention": "7 days",
        "compatibility": "FORWARD",
        "readers": "trino",
        "may_replay": "ada, grace",
        "may_accept": "nobody",
    }
    assert table_properties.contract(made).items() <= table_properties.of_config(made, SchemaLedger()).items()
    assert table_properties.contract(config()) == {}


def test_only_a_contract_that_changed_is_written() -> None:
    """Spark hides a value with a word such as token: that is no change."""
    kept = table_properties.contract(config(WHOLE))
    hidden = {name: "*********(redacted)" if "token" in value else value for name, value in kept.items()}
    assert table_properties.outdated(hidden, config(WHOLE)) == ({}, [])
    wanted, gone = table_properties.outdated(hidden, config({"freshness": "1 hour"}))
    assert words(wanted) == {"freshness": "1 hour"}
    left = {"completeness", "compatibility", "late", "may_accept", "may_replay", "owners", "retention"}
    assert {n.removeprefix("lakeingest.contract.") for n in gone} == left


def test_a_contract_that_the_file_has_no_more_is_taken_away() -> None:
    """And nothing else of the table's, another pipeline's contract included."""
    others = {"delta.appendOnly": "false", "lakeingest.contract.0123456789abcdef": "ff"}
    kept = table_properties.contract(config(WHOLE))
    assert table_properties.outdated({**others, **kept}, config()) == ({}, [*kept])
    assert table_properties.outdated(others, config()) == ({}, [])


@pytest.mark.parametrize("deed", ["replay", "accept"])
def test_only_those_who_are_named_may_decide(deed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told who may, and what to do."""
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    assert receipt.somebody().startswith("ada on ")
    for allowed in (None, {}, {f"may_{deed}": ["grace", "ada"]}):
        preflight.check_user(config(allowed), deed)
    with pytest.raises(UsageError, match=rf"ada may not .* contract\.may_{deed} names grace") as refused:
        preflight.check_user(config({f"may_{deed}": ["grace"]}), deed)
    assert f"add ada to contract.may_{deed}" in refused.value.cure
    with pytest.raises(UsageError, match="names nobody"):
        preflight.check_user(config({f"may_{deed}": []}), deed)


def test_a_user_without_a_name_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may have any uid."""

    def nameless() -> str:
        raise KeyError

    monkeypatch.setattr("getpass.getuser", nameless)
    preflight.check_user(config({"may_replay": [receipt.user()]}), "replay")
