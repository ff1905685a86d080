"""Servers of this machine are reached without a proxy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

_HOSTS = ("127.0.0.1", "localhost", "::1")


@contextmanager
def direct(url: str) -> Iterator[None]:
    """For making a client: a proxy that is set for the outside must not be asked for the loopback.

    Args:
        url: where the client is to go, or several with commas between them; other hosts keep the proxy.
    """
    hosts = {urlsplit(each.strip()).hostname for each in url.split(",")} & set(_HOSTS)
    before = os.environ.get("no_proxy")
    os.environ["no_proxy"] = ",".join(filter(None, (before or os.environ.get("NO_PROXY"), *hosts)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["no_proxy"]
        else:
            os.environ["no_proxy"] = before
