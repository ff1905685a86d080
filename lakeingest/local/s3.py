"""SeaweedFS: an S3 server with conditional writes, in one binary."""

from __future__ import annotations

import json
import os
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lakeingest.errors import SetupError
from lakeingest.local.addresses import HOST, Addresses
from lakeingest.local.server import ServerPlace, listens

BUCKET = "lake"
_CURE = "pip install 'lakeingest[local]'"


class S3:
    """The object store; it has the bucket `lake`."""

    name = "s3"
    version = "SeaweedFS 4.48"
    ports: Sequence[str] = (
        *("master", "master_grpc", "volume", "volume_grpc"),
        *("filer", "filer_grpc", "s3", "s3_grpc"),
    )
    # Its own way of ending waits for connections of its own parts, forever; what was acknowledged is in files by then.
    grace_s = 2.0

    def command(self, place: ServerPlace) -> tuple[Sequence[str], Mapping[str, str]]:
        """Write the keys that it lets in, and say how to start."""
        keys = place.data / "s3.json"
        credentials = [{"accessKey": place.access_key, "secretKey": place.secret_key}]
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        keys.touch(mode=0o600)
        keys.write_text(
            json.dumps({"identities": [{"name": "lakeingest", "credentials": credentials, "actions": actions}]})
        )
        ports = place.ports
        options = {
            "ip": HOST,
            "ip.bind": HOST,
            "dir": place.data,
            "master.peers": "none",
            # Nothing is allocated ahead; many small volumes, because each bucket takes seven at once.
            "master.volumeSizeLimitMB": 1024,
            "volume.max": 1000,
            "volume.preStopSeconds": 0,
            "s3.config": keys,
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
        }
        for part in ("master", "volume", "filer", "s3"):
            options |= {f"{part}.port": ports[part], f"{part}.port.grpc": ports[f"{part}_grpc"]}
        flags = [f"-{key}={value}" for key, value in options.items()]
        # It looks for further settings in the home folder.
        env = {**os.environ, "HOME": str(place.data)}
        return [str(_weed()), "-logtostderr=true", "server", "-filer", "-s3", *flags], env

    def ready(self, place: ServerPlace) -> bool:
        """Whether an object can be written to the bucket, which is made if it is missing."""
        if not listens(place.ports["s3"]):
            return False
        from botocore.exceptions import BotoCoreError, ClientError

        client = _client(f"http://{HOST}:{place.ports['s3']}", place.access_key, place.secret_key)
        try:
            if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key=".ready", Body=b"")
            client.delete_object(Bucket=BUCKET, Key=".ready")
            client.list_objects_v2(Bucket=BUCKET, MaxKeys=1)
        except (BotoCoreError, ClientError):
            return False
        finally:
            client.close()
        return True


def holds(addresses: Addresses, bucket: str, prefix: str) -> bool | None:
    """Whether the stack's bucket has an object whose key begins so; None where that cannot be told."""
    if find_spec("boto3") is None:
        return None
    from botocore.exceptions import BotoCoreError, ClientError

    client = _client(addresses.s3, addresses.s3_access_key, addresses.s3_secret_key)
    try:
        return bool(client.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1).get("KeyCount"))
    except (BotoCoreError, ClientError) as failed:
        missing = isinstance(failed, ClientError) and failed.response["Error"]["Code"] == "NoSuchBucket"
        return False if missing else None
    finally:
        client.close()


def _client(endpoint: str, access_key: str, secret_key: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}, connect_timeout=2, read_timeout=5),
    )


def need() -> None:
    """Look whether the S3 server, and the client that asks it whether it serves, are installed.

    Raises:
        SetupError: one of them is not.
    """
    _weed()
    if find_spec("boto3") is None:
        raise SetupError("boto3 is not installed, which the embedded stack needs", cure=_CURE)


def _weed() -> Path:
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    path = beside if beside.is_file() else shutil.which("weed")
    if path is None:
        raise SetupError("there is no weed, the S3 server, beside lakeingest", cure=_CURE)
    return Path(path)
