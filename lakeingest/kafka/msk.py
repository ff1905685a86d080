"""Tokens for MSK's IAM, as librdkafka takes them: a signed URL, made from the keys that AWS's own chain finds."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from lakeingest.errors import SetupError, UsageError

_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:amazonaws\.com|api\.aws)", re.IGNORECASE)


def tokens(servers: str) -> Callable[[str], tuple[str, float]]:
    """Gives librdkafka a token whenever it needs one, and its end (seconds since 1970).

    Raises:
        SetupError: the package that signs is not installed, or no keys are to be found.
        UsageError: the region is not to be found.
    """
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise SetupError(
            "sasl.mechanism AWS_MSK_IAM needs the package aws-msk-iam-sasl-signer-python",
            cure="pip install 'lakeingest[msk]'",
        ) from None
    region = region_of(servers)

    def token(_: str) -> tuple[str, float]:
        signed, until_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return signed, until_ms / 1000

    try:
        # librdkafka would wait for ten seconds, and not tell why.
        token("")
    except (AttributeError, BotoCoreError, ClientError, ValueError) as failed:
        # The signer has an AttributeError for "there are none".
        reason = "" if isinstance(failed, AttributeError) else f": {failed}"
        raise SetupError(
            f"no keys of AWS are to be found, with which to come into MSK by IAM{reason}",
            cure="let this process have a role, or export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        ) from None
    return token


def region_named(servers: str) -> str | None:
    """The region that the names of MSK's brokers have; None where they are no such names."""
    match = _REGION.search(servers)
    return match.group(1).lower() if match else None


def region_of(servers: str) -> str:
    """The region of an MSK cluster, by the names of its brokers; else that of this process ($AWS_REGION).

    Raises:
        UsageError: neither tells it.
    """
    region = region_named(servers) or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise UsageError(
            f"the region of the MSK cluster at {servers} is not to be found",
            cure="name the brokers as MSK does (….kafka.REGION.amazonaws.com:9098), or export AWS_REGION",
        )
    return region
