"""An account of AWS on the loopback: MiniStack, which keeps the rights of IAM's policies, and what encrypts objects."""

from __future__ import annotations

import json
import os
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from support.servers import free_port, glue, serving

ACCOUNT = "000000000000"
REGION = "us-east-1"
_CONTROL = "http://awss3control.amazonaws.com/doc/2018-08-20/"


@dataclass(frozen=True)
class User:
    """Somebody with keys, and with the rights that were given."""

    name: str
    access_key: str
    secret_key: str

    @property
    def storage(self) -> dict[str, str]:
        return {"access_key": self.access_key, "secret_key": self.secret_key}


@dataclass(frozen=True)
class Account:
    """MiniStack, asked by the account's root.

    Attributes:
        url: of every service.
    """

    url: str

    def client(self, service: str, user: User | None = None) -> Any:
        key, secret = (user.access_key, user.secret_key) if user else ("test", "test")
        keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        return boto3.client(service, endpoint_url=self.url, region_name=REGION, **keys)

    def bucket(self, name: str) -> None:
        self.client("s3").create_bucket(Bucket=name)

    def access_point(self, name: str, bucket: str) -> str:
        """The ARN of a new one. Asked without boto3, which would put the account's number before the host's name."""
        text = f'<CreateAccessPointRequest xmlns="{_CONTROL}"><Bucket>{bucket}</Bucket></CreateAccessPointRequest>'
        url = f"{self.url}/v20180820/accesspoint/{name}"
        asked = AWSRequest("PUT", url, {"x-amz-account-id": ACCOUNT}, text.encode())
        S3SigV4Auth(Credentials("test", "test"), "s3", REGION).add_auth(asked)
        sent = urllib.request.Request(url, text.encode(), dict(asked.headers.items()), method="PUT")
        with urllib.request.urlopen(sent) as answer:
            assert answer.status == 200
        return f"arn:aws:s3:{REGION}:{ACCOUNT}:accesspoint/{name}"

    def user(self, name: str, policy: Mapping[str, Any] | None = None) -> User:
        """A new user with one policy, or with none."""
        iam = self.client("iam")
        iam.create_user(UserName=name)
        if policy is not None:
            self.allow(name, policy)
        made = iam.create_access_key(UserName=name)["AccessKey"]
        return User(name, made["AccessKeyId"], made["SecretAccessKey"])

    def allow(self, name: str, policy: Mapping[str, Any]) -> None:
        """Let a user have these rights, and none besides."""
        self.client("iam").put_user_policy(UserName=name, PolicyName="all", PolicyDocument=json.dumps(policy))

    def role(self, name: str, who: User, external_id: str, policy: Mapping[str, Any]) -> str:
        """The ARN of a new role that this user may take, who says the id."""
        trust = {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:user/{who.name}"},
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": {"sts:ExternalId": external_id}},
        }
        iam = self.client("iam")
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        arn: str = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
        self.give(name, policy)
        return arn

    def give(self, role: str, policy: Mapping[str, Any]) -> None:
        """Let a role have these rights, and none besides."""
        self.client("iam").put_role_policy(RoleName=role, PolicyName="all", PolicyDocument=json.dumps(policy))


def allow(*actions: str, resource: str | list[str] = "*") -> dict[str, Any]:
    """A policy of one statement."""
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": [*actions], "Resource": resource}],
    }


@contextmanager
def account(folder: Path) -> Iterator[Account]:
    """A new one; it ends with the block."""
    port = free_port()
    env = {
        **os.environ,
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3,iam,sts",
        "AUTH": "true",
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
    }
    with serving([glue.installed() / "ministack"], port, folder / "ministack.log", env):
        yield Account(f"http://127.0.0.1:{port}")


class ByHost(ThreadingHTTPServer):
    """A proxy of HTTP's that hands what is for any host on to an account.

    Attributes:
        hosts: whom the requests were for.
    """

    def __init__(self, account: Account) -> None:
        super().__init__(("127.0.0.1", 0), _Relay)
        self.account, self.hosts = account, list[str]()

    @property
    def port(self) -> int:
        return self.server_address[1]


@contextmanager
def by_host(account: Account) -> Iterator[ByHost]:
    with ByHost(account) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        yield proxy
        proxy.shutdown()


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ByHost

    def relay(self) -> None:
        self.server.hosts.append(self.headers["Host"])
        url = urlsplit(self.path)
        with closing(HTTPConnection(urlsplit(self.server.account.url).netloc)) as upstream:
            upstream.putrequest(self.command, url._replace(scheme="", netloc="").geturl(), True, True)
            for name, value in self.headers.items():
                if name not in ("Expect", "Connection", "Proxy-Connection"):
                    upstream.putheader(name, value)
            upstream.endheaders(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            answer = upstream.getresponse()
            body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", answer.getheader("Content-Length") or str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay  # noqa: N815 (the names are http.server's)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
