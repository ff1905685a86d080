"""What a contract may promise, and which promises the rest of the file does not keep."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lakeingest.config import PipelineConfig, contract
from lakeingest.config.file import from_mapping
from lakeingest.errors import PipelineFileError

HOURS = [{"by": "time", "every": "hour"}]


def config(promised: dict[str, Any], **parts: Any) -> PipelineConfig:
    values: dict[str, Any] = {
        "name": "flights",
        "source": {"topics": ["flights"], "bootstrap_servers": "nowhere:1"},
        "schema": {"columns": "n INT, at TIMESTAMP"},
        "table": {"path": "s3a://lake/flights"},
    }
    return from_mapping({**values, **parts, "contract": promised})


def problems(promised: dict[str, Any], **parts: Any) -> str:
    with pytest.raises(PipelineFileError) as wrong:
        config(promised, **parts)
    return "\n".join(wrong.value.problems)


@pytest.mark.parametrize("owner", ["data@example.com", "team-flights", "Ada L. <ada@ex-ample.co.uk>", "Über <ü@a.de>"])
def test_an_owner_is_a_name_or_an_address(owner: str) -> None:
    """Or both."""
    assert config({"owners": [owner]}).contract == contract.Contract(owners=(owner,))


@pytest.mark.parametrize(
    "owner", ["", "@team", "a@b", "x <y>", "x <a@b.c", "a\nb", "a,b", "${X}", "x" * 201, "<a@b.c>"]
)
def test_another_form_of_an_owner_is_refused(owner: str) -> None:
    """With the forms that there are."""
    promised: dict[str, Any] = {"owners": [owner.replace("${X}", "$${X}")]}
    assert "data@example.com" in problems(promised)


@pytest.mark.parametrize("user", ["", "a,b", "a\x1b[2J", "-rf", "a\nb"])
def test_a_user_is_a_name_of_the_system(user: str) -> None:
    """Else nobody could ever be the one."""
    assert "id -un" in problems({"may_replay": [user]})
    assert "id -un" in problems({"may_accept": [user]})


@pytest.mark.parametrize(
    ("freshness", "every", "kept"),
    [("1 minute", "1 minute", False), ("30 s", "1 minute", False), ("61 s", "1 minute", True), ("1 d", "1 h", True)],
)
def test_freshness_is_longer_than_the_trigger(freshness: str, every: str, kept: bool) -> None:
    """A record waits so long for its batch to begin."""
    if kept:
        config({"freshness": freshness}, trigger={"every": every})
    else:
        assert "cannot be kept: a batch begins every" in problems({"freshness": freshness}, trigger={"every": every})


def test_little_room_is_told() -> None:
    """A batch takes its time, too."""
    for freshness, count in (("90 s", 1), ("2 minutes", 0)):
        made = config({"freshness": freshness})
        assert len([*contract.notices(made.contract, made.trigger)]) == count


@pytest.mark.parametrize(
    ("promised", "enforced", "kept"),
    [
        ("NONE", "NONE", True),
        ("BACKWARD", "BACKWARD", True),
        ("BACKWARD", "FULL", True),
        ("BACKWARD", "FORWARD", False),
        ("FORWARD", "NONE", False),
        ("FULL", "BACKWARD", False),
    ],
)
def test_the_schema_mode_keeps_what_was_promised(promised: str, enforced: str, kept: bool) -> None:
    """It is as strict, or stricter."""
    schema = {"columns": "n INT", "compatibility": enforced}
    if kept:
        config({"compatibility": promised}, schema=schema)
    else:
        assert f"schema.compatibility {enforced} does not keep it" in problems(
            {"compatibility": promised}, schema=schema
        )


def test_the_default_mode_counts_and_text_keeps_all() -> None:
    """JSON's is FORWARD; a text's one column never changes."""
    assert "FORWARD does not keep it" in problems({"compatibility": "BACKWARD"})
    config({"compatibility": "FULL"}, schema={}, decode={"value": {"format": "string"}})


def test_a_table_has_one_comment() -> None:
    """Whichever part says it."""
    assert config({"description": "Flights"}).comment == "Flights"
    table = {"path": "s3a://lake/flights", "comment": "Departures"}
    assert config({"description": "Departures"}, table=table).comment == "Departures"
    assert "table.comment says something else" in problems({"description": "Flights"}, table=table)


def test_where_completeness_is_kept() -> None:
    """Beside the table, by path or by name, or where the file says; among the pipeline's tables if it is followed."""
    assert config({"completeness": {}}, partition=HOURS).tables[-2] == "s3a://lake/flights_completeness"
    assert config({"completeness": {}}, partition=HOURS, table={"name": "a.b"}).completeness == "a.b_completeness"
    other = {"completeness": {"table": "s3a://lake/complete"}}
    assert config(other, partition=HOURS).paths[-2] == "s3a://lake/complete"
    assert len(config({}).tables) == 3


@pytest.mark.parametrize("there", ["s3a://lake/flights", "s3a://lake/flights/x", "s3a://lake/flights_quarantine/"])
def test_no_two_tables_in_one_place(there: str) -> None:
    """Delta's vacuum would delete the one within the other."""
    said = problems({"completeness": {"table": there}}, partition=HOURS)
    assert "contract.completeness.table" in said
    assert "_completeness" in said


@pytest.mark.parametrize(
    ("partition", "said"),
    [
        ([], "partition has none"),
        ([{"by": "field", "field": "n"}], "partition has none"),
        ([{"by": "time"}, {"by": "time", "every": "hour"}], "partition has 2"),
        ([{"by": "time", "extract": "wallclock"}], "write record or field"),
        ([{"by": "time", "every": "30 seconds"}], "1 minute or more"),
        ([{"by": "time", "every": "hour", "format": "'hour'=HH"}], "add yyyy, MM, dd"),
        ([{"by": "time", "every": "month", "format": "'m'=yyyy-MMM"}], "MMM cannot be followed"),
        ([{"by": "time", "every": "15 minutes", "format": "'h'=yyyy-MM-dd-HH"}], "add mm"),
        ([{"by": "time", "every": "2 days", "format": "'h'=yyyy-MM"}], "add dd"),
    ],
)
def test_completeness_needs_periods_that_can_be_told_apart(partition: list[dict[str, Any]], said: str) -> None:
    """A sentence, and a cure."""
    assert said in problems({"completeness": {}}, partition=partition)


def test_readers_stand_in_one_place() -> None:
    """The option of the file itself."""
    assert "unknown option" in problems({"readers": ["trino"]})
    assert "athena" in problems({}, readers=["excel"])


@pytest.mark.parametrize(
    ("longest", "promised", "kept"),
    [("364 days", "365 days", False), ("365 days", "365 days", True), (None, "1 d", True)],
)
def test_rows_stay_as_long_as_is_promised(longest: str | None, promised: str, kept: bool) -> None:
    """An expiry that is sooner breaks the promise; one of other tables has none."""
    retention = {"table": longest, "quarantine": "1 hour"} if longest else {"quarantine": "1 hour"}
    if kept:
        assert config({"retention": promised}, retention=retention).retention.quarantine == timedelta(hours=1)
    else:
        text = problems({"retention": promised}, retention=retention)
        assert "retention.table: 364 days is less than contract.retention promises, 365 days" in text
        assert "write '365 days' or longer" in text
