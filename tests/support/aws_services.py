"""Secrets Manager and SSM on the loopback: moto answers, and each signature is checked with botocore.

For code that sends its own requests, which moto does not see: they come here by AWS_ENDPOINT_URL.
"""

import hmac
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto import mock_aws

from support.servers import HOST

REGION = "eu-west-1"
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "AWS_SESSION_TOKEN": "session/token+of==a-role",
}


@dataclass(slots=True)
class AwsServices:
    """Attributes: `aws`, the variables with which a client comes here; `operations` as they came;
    `refuse`, to be set by the test: (status, code) for an operation, None to let moto answer."""

    aws: dict[str, str]
    operations: list[str] = field(default_factory=list)
    refuse: Callable[[str], tuple[int, str] | None] = lambda _operation: None

    def set_secrets_manager(self, environment: pytest.MonkeyPatch) -> None:
        """Let code of this process come here for secrets alone: moto has the rest in memory."""
        for name, value in self.aws.items():
            more = "_SECRETS_MANAGER" if name == "AWS_ENDPOINT_URL" else ""
            environment.setenv(name + more, value)

    def client(self, service: str):
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=f"https://{service}.{REGION}.amazonaws.com",  # moto, whatever is set
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )

    def secret(self, text: str, name: str = "redis") -> str:
        """Make a secret; its ARN."""
        return self.client("secretsmanager").create_secret(Name=name, SecretString=text)["ARN"]

    def rotate(self, arn: str, text: str) -> None:
        """Give it a new version, which is AWSCURRENT from now on."""
        self.client("secretsmanager").put_secret_value(SecretId=arn, SecretString=text)


@contextmanager
def aws_services() -> Iterator[AwsServices]:
    with mock_aws(), ThreadingHTTPServer((HOST, 0), _Handler) as server:
        url = f"http://{HOST}:{server.server_address[1]}"
        made = AwsServices(aws={**KEYS, "AWS_REGION": REGION, "AWS_ENDPOINT_URL": url})
        server.services = made
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        services = self.server.services
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = self.headers["X-Amz-Target"]
        services.operations.append(operation)
        if not _is_signed_right(self.path, self.headers, body):
            self._answer(403, json.dumps({"__type": "InvalidSignatureException"}).encode())
        elif refusal := services.refuse(operation):
            status, code = refusal
            error = {"__type": f"com.amazonaws#{code}", "message": "No."}
            self._answer(status, json.dumps(error).encode())
        else:
            service = "ssm" if operation.startswith("AmazonSSM.") else "secretsmanager"
            answer = requests.post(  # which moto answers
                f"https://{service}.{REGION}.amazonaws.com/",
                data=body,
                headers={
                    name: self.headers[name]
                    for name in ("X-Amz-Target", "Content-Type", "Authorization")
                },
                timeout=10,
            )
            self._answer(answer.status_code, answer.content)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _is_signed_right(path: str, headers, body: bytes) -> bool:
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request, SignedHeaders=(\S+), "
        r"Signature=(\w+)",
        headers["Authorization"] or "",
    )
    if not found:
        return False
    access_key, region, service, names, signature = found.groups()
    signed = {name: headers[name] for name in names.split(";")}
    request = AWSRequest("POST", f"http://{headers['Host']}{path}", signed, body)
    request.context["timestamp"] = headers["X-Amz-Date"]
    keys = Credentials(access_key, KEYS["AWS_SECRET_ACCESS_KEY"], KEYS["AWS_SESSION_TOKEN"])
    judge = SigV4Auth(keys, service, region)
    wanted = judge.signature(
        judge.string_to_sign(request, judge.canonical_request(request)), request
    )
    return (
        hmac.compare_digest(wanted, signature)
        and headers["X-Amz-Security-Token"] == KEYS["AWS_SESSION_TOKEN"]
    )
