"""Certificates and keys that source.options name, as text: what has read them needs no file on another machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakeingest.errors import SourceUnreachable, UsageError

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SYSTEMS = "probe"
"""librdkafka's word for the authorities that the machine trusts; Java has its own list of them."""


def authorities(options: Mapping[str, str], of: str = "ssl") -> str:
    """The certificates of the CAs that `ssl.ca.location` or `ssl.ca.pem` name; empty where none is named.

    Args:
        of: ssl, or https: that of the server that gives tokens.

    Raises:
        UsageError: they cannot be read, or hold no certificate.
    """
    text, where = options.get(f"{of}.ca.pem"), f"{of}.ca.pem"
    if text is None and options.get(f"{of}.ca.location", _SYSTEMS) != _SYSTEMS:
        where = f"{of}.ca.location"
        if not options[where]:
            # As of a variable that is empty. The current folder is what Python understands by it.
            raise UsageError(f"{where} of source.options is empty", cure="name a file or a folder, or leave it out")
        text = "\n".join(_read(where, path) for path in _files(Path(options[where])))
    return "\n".join(_certificates(where, text)) + "\n" if text is not None else ""


def identity(options: Mapping[str, str]) -> tuple[str, str] | None:
    """The certificate (with its chain) by which the client proves itself, and its key (PKCS#8, not encrypted).

    Returns:
        None where the options name none.

    Raises:
        UsageError: they cannot be read, do not belong together, or the key is of a kind that Java's client cannot take.
        SourceUnreachable: the certificate has expired, or is not valid yet; one that is renewed is read anew.
    """
    files = _from_store(options) if "ssl.keystore.location" in options else _from_pem(options)
    if files is None:
        return None
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    where, chain, key = files
    if not isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey, dsa.DSAPrivateKey)):
        raise UsageError(
            f"the client's key, in {where}, is of a kind that Spark's reader (Java's client) cannot take",
            cure="let the authority certify an RSA or an EC key",
        )
    as_bytes = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        certificate = x509.load_pem_x509_certificate(chain.encode())
        certified = certificate.public_key().public_bytes(*as_bytes)
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(
            f"the client's certificate, in {where}, cannot be read: it is damaged, or of a kind that is not known",
            cure="put there what the authority has issued, of an RSA or an EC key",
        ) from None
    if certified != key.public_key().public_bytes(*as_bytes):
        raise UsageError(
            f"the client's certificate, in {where}, is of another key than the one that source.options name",
            cure="let ssl.key.location name the key that the certificate was made for",
        )
    _check_dates(certificate, where)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return chain, pem


def issued(chain: str) -> str:
    """Whom a certificate is of, by whom, and until when."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(chain.encode())
    subject, issuer = certificate.subject.rfc4514_string(), certificate.issuer.rfc4514_string()
    return f"{subject}, issued by {issuer}, good until {certificate.not_valid_after_utc:%Y-%m-%d}"


def _check_dates(certificate: Any, where: str) -> None:
    now, begin, end = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if begin <= now <= end:
        return
    problem = f"expired at {end:%Y-%m-%d %H:%M} UTC" if now > end else f"is not valid before {begin:%Y-%m-%d %H:%M} UTC"
    raise SourceUnreachable(
        f"the client's certificate, in {where}, {problem}",
        cure="renew it, or correct the clock of this machine; nothing was lost, run again",
    )


def _from_pem(options: Mapping[str, str]) -> tuple[str, str, Any] | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    parts: list[tuple[str, str]] = []
    for part in ("certificate", "key"):
        # In this order: librdkafka takes the text where both are given.
        inline, file = f"ssl.{part}.pem", f"ssl.{part}.location"
        if inline in options:
            parts.append((inline, options[inline]))
        elif file in options:
            parts.append((file, _read(file, Path(options[file]))))
    if not parts:
        return None
    if len(parts) == 1:
        has = parts[0][0]
        raise UsageError(
            f"source.options name {has}, and the {'key' if 'certificate' in has else 'certificate'} is missing",
            cure="write ssl.certificate.location and ssl.key.location, both",
        )
    (where, text), (of_key, key) = parts
    place = f"{where} {options[where]}" if where.endswith(".location") else where
    chain = "\n".join(_certificates(where, text)) + "\n"
    password = options.get("ssl.key.password")
    try:
        return place, chain, load_pem_private_key(key.encode(), password.encode() if password else None)
    except TypeError:
        # A password that is not needed: librdkafka takes no notice of it.
        if not password:
            raise UsageError(
                f"the key of {of_key} is encrypted", cure="write its password as ssl.key.password"
            ) from None
        return place, chain, load_pem_private_key(key.encode(), None)
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(
            f"the key of {of_key} cannot be opened: it is no key in PEM, of a kind that is not known, or "
            "ssl.key.password is wrong",
            cure="correct the two in source.options",
        ) from None


def _from_store(options: Mapping[str, str]) -> tuple[str, str, Any]:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    path, password = Path(options["ssl.keystore.location"]), options.get("ssl.keystore.password")
    try:
        key, certificate, more = pkcs12.load_key_and_certificates(
            path.read_bytes(), password.encode() if password else None
        )
    except OSError as failed:
        raise _unreadable("ssl.keystore.location", path, failed) from None
    except ValueError:
        raise UsageError(
            f"ssl.keystore.location {path} cannot be opened: it is no PKCS#12 file, or ssl.keystore.password is wrong",
            cure="correct the two in source.options, or write ssl.certificate.location and ssl.key.location",
        ) from None
    if key is None or certificate is None:
        raise UsageError(
            f"ssl.keystore.location {path} holds no key with its certificate",
            cure="put both into it, or write ssl.certificate.location and ssl.key.location",
        )
    chain = "".join(each.public_bytes(Encoding.PEM).decode() for each in (certificate, *more))
    return f"ssl.keystore.location {path}", chain, key


def _certificates(where: str, text: str) -> list[str]:
    certificates = _CERTIFICATE.findall(text)
    if not certificates:
        raise UsageError(
            f"{where} of source.options holds no certificate",
            cure="let it be PEM: lines from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----",
        )
    return certificates


def _files(path: Path) -> list[Path]:
    """The file, or those of a folder, which librdkafka takes too."""
    try:
        return sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    except OSError as failed:
        raise _unreadable("ssl.ca.location", path, failed) from None


def _read(option: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as failed:
        raise _unreadable(option, path, failed) from None


def _unreadable(option: str, path: Path, failed: Exception) -> UsageError:
    # A file that has the key itself where its path should stand must not be told.
    place = path if "-----" not in str(path) and len(str(path)) < 300 else "…"
    why = failed.strerror if isinstance(failed, OSError) else "it is not text"
    return UsageError(
        f"{option} of source.options cannot be read: {place}: {why}",
        cure=f"correct {option}, or let the user of this process read that file",
    )
