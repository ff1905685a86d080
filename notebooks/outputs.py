"""Runs the notebooks, each in a kernel of its own, and writes what they show into them.

    python notebooks/outputs.py [01_first_pipeline.ipynb …]

It runs these, or all, one after the other, on an embedded stack of their own. Nothing of this machine is shown: its
paths, ports, keys and names are replaced.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from lakeingest.local import Addresses
from lakeingest.local.stack import down, up

FOLDER = Path(__file__).parent


def private(stack: Addresses, state: Path) -> dict[str, str]:
    """What outputs have of this machine → what stands there instead."""
    ports = {stack.kafka: "9092", stack.s3: "8333", stack.registry: "8081"}
    return {
        **{re.findall(r"127\.0\.0\.1:\d+", address)[0]: f"127.0.0.1:{port}" for address, port in ports.items()},
        stack.s3_access_key: "the-key",
        stack.s3_secret_key: "the-secret",
        str(state): "~/.local/state/lakeingest",
        str(FOLDER.parent): "lakeingest",
        f"{getpass.getuser()}@{socket.gethostname()}": "you@host-1",
        socket.gethostname(): "host-1",
    }


def replaced(output: Any, instead: dict[str, str]) -> Any:
    """An output, or a part of it, without what is of this machine."""
    if isinstance(output, dict):
        return {name: value if name == "image/png" else replaced(value, instead) for name, value in output.items()}
    if isinstance(output, list):
        return [replaced(each, instead) for each in output]
    if isinstance(output, str):
        for old, new in instead.items():
            # A machine's name may be a part of any word.
            output = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, output)
        # The folders in which notebooks write their pipeline files.
        output = re.sub(rf"{re.escape(tempfile.gettempdir())}/tmp\w+", "pipelines", output)
    return output


def run(file: Path, instead: dict[str, str]) -> None:
    """Run one notebook, and keep what it shows."""
    notebook = nbformat.read(file, as_version=4)
    NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": FOLDER}},
    ).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(replaced(each, instead)) for each in cell.outputs]
    nbformat.write(notebook, file)


def main(files: list[Path]) -> None:
    """Bring notebooks up to date."""
    with tempfile.TemporaryDirectory(prefix="notebooks-") as folder:
        state = Path(folder)
        os.environ["LAKEINGEST_STATE"] = folder
        try:
            instead = private(up(state), state)
            for file in files:
                print(file.name, file=sys.stderr)
                run(file, instead)
        finally:
            down(state, wipe=True)


if __name__ == "__main__":
    main([FOLDER / Path(name).name for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")))
