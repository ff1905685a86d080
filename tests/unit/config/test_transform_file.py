"""The transforms of a pipeline file: how they are written, and what is wrong with them, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from lakeingest.cli import app, pipeline_file
from lakeingest.config.file import read
from lakeingest.errors import PipelineFileError
from lakeingest.schema.transforms import Mask

GOOD: dict[str, Any] = {
    "name": "p",
    "source": {"topics": ["t"]},
    "table": {"path": "s3a://lake/t"},
    "schema": {"columns": "id INT NOT NULL, mail STRING, at TIMESTAMP"},
}


def written(folder: Path, /, **changes: Any) -> Path:
    (path := folder / "p.yaml").write_text(json.dumps({**GOOD, **changes}, indent=1))
    return path


def problems(folder: Path, /, **changes: Any) -> list[str]:
    with pytest.raises(PipelineFileError) as caught:
        read(written(folder, **changes), {"KEY": "k" * 16})
    return [problem.partition("p.yaml:")[2] for problem in caught.value.problems]


def test_the_columns_of_the_table(tmp_path: Path) -> None:
    """Partitions, and whatever else asks the file for columns, see those behind the steps."""
    steps = [{"derive": {"day_of": "CAST(at AS DATE)"}}, {"drop": ["at"]}]
    by = [{"by": "time", "field": "day_of", "extract": "field"}]
    found = read(written(tmp_path, transform=steps, partition=by), {})
    assert [(c.name, str(c.type), c.nullable) for c in found.columns] == [
        ("id", "int", False),
        ("mail", "string", True),
        ("day_of", "date", True),
    ]


def test_masks_as_they_are_written(tmp_path: Path) -> None:
    """A bare null hides a field, where it means nothing anywhere else."""
    (path := tmp_path / "p.yaml").write_text(
        "name: p\nsource: {topics: [t]}\ntable: {path: s3a://lake/t}\n"
        "schema: {columns: 'a INT, b STRING, c STRING, d STRING, e STRING'}\n"
        "quarantine: {keep_bytes: never}\n"
        "transform:\n  - mask: {a: null, b: 'null', c: {hash: '${SALT}'}, d: {last: 4}, e: {constant: hidden}}\n"
    )
    found = read(path, {"SALT": "s"})
    assert dict(found.steps[0].masks) == {
        "a": Mask("null"),
        "b": Mask("null"),
        "c": Mask("hash", "s"),
        "d": Mask("last", kept_characters=4),
        "e": Mask("constant", "hidden"),
    }
    assert "'s'" not in repr(found)


MASK = [{"mask": {"mail": None}}]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"transform": [{"renam": {"a": "b"}}]}, "16: transform[0].renam: unknown option; did you mean rename?"),
        (
            {"transform": [{"drop": ["id"], "keep": ["at"]}]},
            "15: transform[0]: a mapping is not one step, but 2 at once (drop, keep); write one of rename, drop, keep,",
        ),
        ({"transform": [{}]}, "15: transform[0]: a mapping is not one step, but none"),
        ({"transform": [{"drop": []}]}, "16: transform[0].drop: empty; write at least one"),
        ({"transform": {"drop": ["id"]}}, "14: transform: a mapping is not a list"),
        ({"transform": [{"drop": ["idd"]}]}, "16: transform[0].drop.idd: idd is no column; did you mean id?"),
        (
            {"transform": [{"rename": {"id": "_offset"}}]},
            '17: transform[0].rename.id: "_offset": names that begin with _',
        ),
        ({"transform": [{"rename": {"id": "a b"}}]}, "is no name for a Delta column"),
        (
            {"transform": [{"cast": {"id": "INTT"}}]},
            '17: transform[0].cast.id: "INTT" is not a type; did you mean INT?',
        ),
        ({"transform": [{"derive": {"x": "idd + 1"}}]}, "17: transform[0].derive.x: idd is no column"),
        ({"transform": [{"where": {"x y": "id > 1"}}]}, "is not a name"),
        (
            {"transform": [{"mask": {"mail": "hash"}}]},
            "the value (not shown) is not a mask; write null, {hash: ${SALT}}",
        ),
        (
            {"transform": MASK},
            "quarantine.keep_bytes: required, and missing: mail is hidden, and the bytes of refused records would",
        ),
        (
            {"transform": MASK, "quarantine": {"keep_bytes": "encrypted"}},
            "quarantine.encryption_key: required for keep_bytes: encrypted, 16 characters at least",
        ),
        (
            {"quarantine": {"keep_bytes": "encrypted", "encryption_key": "short"}},
            "quarantine.encryption_key: required for keep_bytes: encrypted, 16 characters at least",
        ),
        ({"quarantine": {"encryption_key": "${KEY}"}}, "quarantine.encryption_key: encrypts nothing; write"),
    ],
)
def test_mistakes(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """The place in the file, and a cure; no secret."""
    found = problems(tmp_path, **changes)
    assert len(found) == 1
    assert said in found[0]
    assert "short" not in found[0]


def test_what_only_the_registry_knows(tmp_path: Path) -> None:
    """Expressions are read without columns; names are checked when the first schema comes."""
    avro = {"schema": {}, "decode": {"value": {"format": "avro"}}}
    read(written(tmp_path, **avro, transform=[{"derive": {"x": "upper(whatever)"}}, {"drop": ["y"]}]), {})
    # `check` asked for the columns, and ended with a traceback.
    assert read(written(tmp_path, **avro, transform=[{"drop": ["y"]}]), {}).columns == ()
    (said,) = problems(tmp_path, **avro, transform=[{"where": {"x": "rand() > 1"}}])
    assert "transform[0].where.x: rand(…) is not for a transform" in said


def test_editors_know_them() -> None:
    steps = [{"mask": {"mail": {"hash": "${SALT}"}}}, {"where": {"x": "id > 1"}}, {"flatten": ["a"]}]
    jsonschema.validate({**GOOD, "transform": steps}, pipeline_file.schema())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"transform": [{"rename": {"mail": "m"}}]}, []),
        (
            {"transform": [{"mask": {"mail": "null"}}], "quarantine": {"keep_bytes": "plain"}},
            [
                "transform hides mail; written as it came, in quarantine too: _key, _headers, _rescued; mask or drop "
                "these, too, if they may hold the same, as in mask: {_key: null}",
                "quarantine keeps the bytes of refused records as they came, mail among them; write "
                "quarantine.keep_bytes: encrypted, or never",
            ],
        ),
        (
            {
                "transform": [{"mask": {"mail": "null", "_headers.user": "null"}}, {"drop": ["_key", "_rescued"]}],
                "quarantine": {"keep_bytes": "never"},
            },
            [
                "transform hides mail, _headers.user, _key, _rescued; written as it came, in quarantine too: _headers "
                "but for _headers.user; mask or drop these, too, if they may hold the same, as in mask: {_key: null}",
                "quarantine keeps no bytes of refused records: these cannot be replayed, and what Kafka deletes of "
                "them is lost; write quarantine.keep_bytes: encrypted to have them",
            ],
        ),
        (
            {"transform": [{"keep": ["id"]}]},
            ["transform: keep leaves fields that no column takes out of _rescued, too; to have them, keep _rescued"],
        ),
    ],
)
def test_check_says_what_stays_readable(tmp_path: Path, changes: dict[str, Any], told: list[str]) -> None:
    """A mask of a field says nothing of the key, of headers and of quarantine, which may hold the same."""
    result = CliRunner().invoke(app, ["check", str(written(tmp_path, **changes)), "--output", "json"])
    assert json.loads(result.stdout)["files"][0]["notices"] == told
    said = CliRunner().invoke(app, ["check", str(written(tmp_path, **changes))]).stdout
    assert [line.strip() for line in said.splitlines()[1:]] == told


def test_a_key_that_cannot_be_masked(tmp_path: Path) -> None:
    """A mask of the key is held against its format; what hides key or headers asks for keep_bytes."""
    found = problems(tmp_path, transform=[{"drop": ["_headers.user"]}, {"mask": {"_key": {"hash": "s"}}}])
    assert [text.partition(": ")[2][:71] for text in sorted(found)] == [
        "quarantine.keep_bytes: required, and missing: _key, _headers.user is hi",
        "transform[1].mask._key: hash is for texts, numbers and times, and _key ",
    ]


@pytest.mark.parametrize("compatibility", ["BACKWARD", "FULL", "NONE"])
def test_a_hidden_field_that_would_become_a_column(tmp_path: Path, compatibility: str) -> None:
    """It was left out of _rescued, and stood in the clear in the column that its first record made."""
    follows = {"schema": {**GOOD["schema"], "compatibility": compatibility}}
    (problem,) = problems(tmp_path, **follows, transform=[{"drop": ["_rescued.note"]}])
    assert f"transform[0].drop._rescued.note: under {compatibility} note becomes a column" in problem
    read(written(tmp_path, **follows, transform=[{"drop": ["_rescued.note"]}, {"keep": ["id"]}]), {})
    read(written(tmp_path, transform=[{"drop": ["_rescued.note"]}]), {})
    whole = written(tmp_path, **follows, transform=[{"drop": ["_rescued"]}])
    said = CliRunner().invoke(app, ["check", str(whole)]).stdout
    assert f"under {compatibility} new fields become columns, in the clear" in said
