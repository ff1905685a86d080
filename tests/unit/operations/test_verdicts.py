"""The chain of verdicts: what an audit has proved stays proved when the log forgets it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from support.tables import WrittenPipeline, remove

from lakeingest.config import Storage
from lakeingest.errors import TableMismatch, UsageError
from lakeingest.operations import verdicts
from lakeingest.operations.results.audit import Report
from lakeingest.operations.signing import SigningKey
from lakeingest.operations.verdicts import Verdicts


@pytest.fixture
def made(tmp_path: Path) -> WrittenPipeline:
    """Two batches."""
    made = WrittenPipeline(tmp_path)
    made.batch({0: 10, 1: 4})
    made.batch({0: 20, 1: 4})
    return made


def proved(made: WrittenPipeline, key: SigningKey | None = None, *, check_all: bool = False) -> Report:
    before = Verdicts(made.config, Storage(), key, check_all=check_all)
    return before.go_on(made.audit(proved=before.proved))


def objects(made: WrittenPipeline) -> list[Path]:
    return sorted(Path(verdicts.folder_of(str(made.main.folder))).iterdir())


def test_rows_that_the_log_has_forgotten_were_proved(made: WrittenPipeline) -> None:
    """By the newest verdict, where the log goes on at its end, or before; and the next one follows it."""
    assert proved(made).verdict == 1
    made.batch({0: 30, 1: 9})
    made.main.clean_up(2)
    report = proved(made)
    assert (report.conserved, report.earlier, report.verdict) == (True, 24, 2)
    assert (report.proved_by["verdict"], report.proved_by["rows"]) == (1, 24)
    assert "24 rows, older than the log's receipts, were proved by verdict 1 of" in "\n".join(map(str, report.text))
    made.batch({0: 40, 1: 9})
    made.main.clean_up(3)
    assert proved(made).proved_by["verdict"] == 2
    first, second, third = (each.read_bytes() for each in objects(made))
    assert json.loads(second)["before"] == hashlib.sha256(first).hexdigest()
    assert json.loads(third)["before"] == hashlib.sha256(second).hexdigest()


def test_what_no_verdict_reaches_cannot_be_proved(made: WrittenPipeline) -> None:
    """A batch lies between the newest verdict and the oldest receipt."""
    proved(made)
    made.batch({0: 30, 1: 9})
    made.batch({0: 40, 1: 9})
    made.main.clean_up(3)
    report = proved(made)
    assert (report.earlier, report.proved_by) == (39, {})
    assert "cannot be proved any more" in "\n".join(map(str, report.text))


def test_more_rows_than_were_counted(made: WrittenPipeline) -> None:
    """Somebody added one before all others."""
    proved(made)
    made.batch({0: 30, 1: 9})
    made.main.commit(made.main.write([(0, -1)]))
    made.main.clean_up(2)
    assert (made.audit().earlier, proved(made).proved_by) == (25, {})


def test_a_table_made_anew_has_no_verdict(made: WrittenPipeline) -> None:
    """Its rows are others."""
    proved(made)
    (file,) = objects(made)
    text = json.dumps({**json.loads(file.read_text()), "table_id": "another"}).encode()
    file.with_name(f"000001-{hashlib.sha256(text).hexdigest()}.json").write_bytes(text)
    file.unlink()
    made.batch({0: 30, 1: 9})
    made.main.clean_up(2)
    assert proved(made).proved_by == {}


def test_no_verdict_of_what_is_not_conserved(made: WrittenPipeline) -> None:
    """Nothing was proved."""
    made.main.commit(made.main.write([(0, 3)]))
    assert (proved(made).conserved, proved(made).verdict) == (False, 0)


def test_a_changed_verdict_is_noticed(made: WrittenPipeline) -> None:
    """The newest always, an earlier one where all are checked; and a gap."""
    for _ in range(3):
        proved(made)
    _, second, third = objects(made)
    texts = {each: each.read_text() for each in (second, third)}
    third.write_text(texts[third].replace('"table": 24', '"table": 25'))
    with pytest.raises(TableMismatch, match=r"verdict 3 in .* does not follow"):
        proved(made)
    third.write_text(texts[third])
    second.write_text(texts[second].replace('"table": 24', '"table": 25'))
    with pytest.raises(TableMismatch, match=r"verdict 2 in .* does not follow"):
        proved(made, check_all=True)
    assert proved(made).verdict == 4
    second.unlink()
    with pytest.raises(TableMismatch, match=r"verdict 3 in .* does not follow"):
        proved(made)


def test_a_forged_verdict_follows_none(made: WrittenPipeline) -> None:
    """Its own hash is right, and no verdict has the one that it says it follows; or it says that it is the first."""
    proved(made)
    (first,) = objects(made)
    for before in ("0" * 64, ""):
        text = json.dumps({**json.loads(first.read_text()), "number": 2, "before": before}).encode()
        forged = first.with_name(f"000002-{hashlib.sha256(text).hexdigest()}.json")
        forged.write_bytes(text)
        with pytest.raises(TableMismatch, match=r"verdict 2 in .* does not follow"):
            proved(made)
        forged.unlink()


def test_two_audits_at_once_keep_both_verdicts(made: WrittenPipeline) -> None:
    """Both follow the same one, and the next one follows one of them."""
    proved(made)
    chains = [verdicts._Chain.of(str(made.main.folder), Storage(), None) for _ in range(2)]
    first = chains[0].newest() or {}
    own = {name: value for name, value in first.items() if name not in ("number", "before")}
    assert [chain.append({**own, "at": at}) for chain, at in zip(chains, "ab", strict=True)] == [2, 2]
    assert [each.name[:6] for each in objects(made)] == ["000001", "000002", "000002"]
    assert proved(made, check_all=True).verdict == 3


def key_in(folder: Path, name: str) -> SigningKey:
    path = folder / f"{name}.pem"
    path.write_bytes(in_pem(ed25519.Ed25519PrivateKey.generate()))
    return SigningKey(path)


def in_pem(key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_signed_verdict(made: WrittenPipeline, tmp_path: Path) -> None:
    """It proves what is older; one without a signature proves nothing, and one by another key is an error."""
    proved(made)
    made.batch({0: 30, 1: 9})
    made.main.clean_up(2)
    key = key_in(tmp_path, "audits")
    assert proved(made, key).proved_by == {}
    made.batch({0: 40, 1: 9})
    made.main.clean_up(3)
    assert proved(made, key).proved_by["verdict"] == 2
    with pytest.raises(TableMismatch, match=r"verdict 3 in .* has another signature than the key's"):
        proved(made, key_in(tmp_path, "another"))


_DAMAGED = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("text", [None, "no key", _DAMAGED, "rsa"])
def test_a_file_that_holds_no_signing_key(tmp_path: Path, text: str | None) -> None:
    """The error says how one is made."""
    path = tmp_path / "key.pem"
    if text == "rsa":
        path.write_bytes(in_pem(rsa.generate_private_key(65537, 2048)))
    elif text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match="openssl genpkey -algorithm ed25519") as refused:
        SigningKey(path)
    assert ("No such file" if text is None else "no key of Ed25519") in str(refused.value)


def test_a_table_by_name_has_no_place_for_verdicts(made: WrittenPipeline) -> None:
    """A catalog knows where it is, and files alone are written."""
    named = made.config.model_copy(update={"table": made.config.table.model_copy(update={"path": None, "name": "l.t"})})
    with pytest.raises(UsageError, match="verdicts are kept beside a path"):
        Verdicts(named, Storage(), None)


def test_a_verdict_saves_the_sums_that_it_proved(made: WrittenPipeline) -> None:
    """Those of the batches' offsets: one whose sums are others is believed then. What quarantine has is summed always:
    a refusal in another's place is noticed.
    """
    made.batch({0: 30, 1: 9}, refused=[(0, 25)])
    made.batch({0: 31, 1: 9})
    assert proved(made).verdict == 1
    assert Verdicts(made.config, Storage(), None).proved == {1, 2, 3}
    swapped = made.batch({0: 33, 1: 9}, rows=lambda _: [(0, 31), (0, 77)])
    made.batch({0: 34, 1: 9})
    assert (made.audit().conserved, made.audit(proved={swapped}).conserved) == (False, True)
    (add,) = made.quarantine.adds().values()
    made.quarantine.commit(remove(add), made.quarantine.write([(0, 26)]))
    report = made.audit(proved={1, 2, 3, swapped})
    assert (report.conserved, report.missing, report.duplicated) == (False, 1, 1)
