"""What tests need that start a server of their own."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until something listens there; fails with the end of the log if the process ends, or after two minutes."""
    for _ in range(600):
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"nothing listens at {port}: {log.read_text(errors='replace')[-2000:]}")
