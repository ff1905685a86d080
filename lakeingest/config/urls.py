"""Tells URLs of http and https from other texts."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_http(text: str) -> bool:
    """Whether it is one, with a host, and with a port that can be where it names one."""
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False
