"""What the bytes of a key look like."""

from __future__ import annotations

from lakeingest.decode import sniff

JSON = b'{"origin": "JFK"}'


def test_the_key_is_told_of_by_its_own_name() -> None:
    """What is wrong with a key is no matter of decode.value."""
    assert sniff.of(JSON, "registry", "key") == "looks like JSON; write decode.key.format: json"
