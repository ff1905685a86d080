"""The key that signs what audits have proved."""

from __future__ import annotations

from pathlib import Path

from lakeingest.errors import UsageError


class SigningKey:
    """A private key that signs verdicts (Ed25519). `openssl pkeyutl -verify` checks them by the public one.

    Args:
        path: a file in PEM.

    Raises:
        UsageError: it cannot be read, or is no such key.
    """

    def __init__(self, path: Path) -> None:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key, why = None, "it is no key of Ed25519 in PEM, or has a password"
        try:
            key = load_pem_private_key(path.read_bytes(), None)
        except OSError as failed:
            why = str(failed.strerror)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            pass
        if not isinstance(key, Ed25519PrivateKey):
            raise UsageError(
                f"no verdict can be signed with {path}: {why}",
                cure="make a key: openssl genpkey -algorithm ed25519 -out KEY.pem",
            )
        self._key = key

    def sign(self, text: bytes) -> bytes:
        """The signature, 64 bytes."""
        return self._key.sign(text)

    def verifies(self, text: bytes, signature: bytes) -> bool:
        """Whether the signature of a text is this key's."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.public_key().verify(signature, text)
        except InvalidSignature:
            return False
        return True
