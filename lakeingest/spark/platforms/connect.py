"""A session of a Spark Connect server, as $SPARK_REMOTE names it (sc://host:port, Spark's own variable)."""

from __future__ import annotations

import atexit
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from lakeingest.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PORT = 15002
_WAIT_S = 5.0


def session() -> SparkSession | None:
    """One of the server's; None where no server is named.

    Raises:
        SetupError: nothing answers there, or the packages of a client are missing.
    """
    remote = os.environ.get("SPARK_REMOTE")
    if not remote:
        return None
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    url = urlparse(remote)
    try:
        # pyspark itself tries again for minutes.
        socket.create_connection((url.hostname or "", url.port or _PORT), _WAIT_S).close()
        session = SparkSession.builder.remote(remote).getOrCreate()
    except (OSError, PySparkException) as failed:
        raise SetupError(
            f"the Spark Connect server {remote}, which $SPARK_REMOTE names, cannot be reached: {failed}",
            cure="start it, or correct SPARK_REMOTE; without it lakeingest starts a Spark of its own",
        ) from failed
    except ImportError as missing:
        raise SetupError(
            f"a client of Spark Connect needs more packages: {missing}", cure="pip install 'lakeingest[connect]'"
        ) from missing
    # Else Spark 4.2's client asks the server to clean up at the end of the process: where that one is gone, for ten
    # minutes.
    atexit.register(session.client.close)
    return session
