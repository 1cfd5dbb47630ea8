"""Requests signed for AWS, and the keys for it."""

import datetime as dt
import hashlib
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import botocore.auth
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from support.servers import HOST

from kiqbridge.config.credentials.sigv4 import Keychain, Keys, Signer
from kiqbridge.errors import RedisMisconfigured, RedisUnavailable

TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=20)
TOKENS = st.none() | st.text("abcXYZ019+/=", min_size=1, max_size=30)
TIMES = st.integers(0, 4_000_000_000)


def signer(token, now, service="secretsmanager"):
    keys = Keys(access_key="AKID", secret_key="s3cret/+", session_token=token)
    return Signer(keys=keys, region="eu-west-1", service=service, now=now)


def at(now):
    """botocore's clock."""
    moment = dt.datetime.fromtimestamp(now, dt.UTC)
    return mock.patch.object(botocore.auth, "get_current_datetime", return_value=moment)


@given(body=st.binary(max_size=50), token=TOKENS, now=TIMES)
def test_headers_are_those_of_botocore(body, token, now):
    given_headers = {"content-type": "application/x-amz-json-1.1", "x-amz-target": "A.B"}
    request = AWSRequest("POST", "https://host:4566/", dict(given_headers), body)
    with at(now):
        SigV4Auth(Credentials("AKID", "s3cret/+", token), "secretsmanager", "eu-west-1").add_auth(
            request
        )

    ours = signer(token, now).headers(host="host:4566", path="/", body=body, headers=given_headers)

    assert ours["authorization"] == request.headers["Authorization"]
    assert ours["x-amz-date"] == request.headers["X-Amz-Date"]
    assert ours.get("x-amz-security-token") == token


@given(user=TEXT, token=TOKENS, now=TIMES)
def test_a_presigned_address_is_that_of_botocore(user, token, now):
    params = {"Action": "connect", "User": user}
    request = AWSRequest("GET", "https://my-cache/", params=params)
    keys = Credentials("AKID", "s3cret/+", token)
    with at(now):
        SigV4QueryAuth(keys, "elasticache", "eu-west-1", expires=900).add_auth(request)

    ours = signer(token, now, "elasticache").presigned(
        host="my-cache", params=params, expires_s=900
    )

    assert ours.startswith("my-cache/?")
    assert parse_qs(urlsplit(f"https://{ours}").query) == parse_qs(urlsplit(request.url).query)


def test_a_request_of_awss_own_test_suite():
    keys = Keys(access_key="AKIDEXAMPLE", secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    made = Signer(keys=keys, region="us-east-1", service="service", now=1440938160)

    # The request "post-vanilla" of AWS's Signature Version 4 test suite.
    headers = made.headers(host="example.amazonaws.com", path="/", body=b"", headers={})

    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        "SignedHeaders=host;x-amz-date, "
        "Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
    )


def test_keys_and_signers_show_no_secret():
    shown = repr(signer("t0ken", 0))

    assert "AKID" in shown
    assert not re.search("s3cret|t0ken", shown)
    assert hashlib.sha256(b"").hexdigest() not in shown


ROLE = {
    "AccessKeyId": "ASIAROLE",
    "SecretAccessKey": "of-the-role",
    "Token": "t0ken",
    "Expiration": "2999-01-01T00:00:00Z",
}


@pytest.fixture
def no_keys(monkeypatch, tmp_path):
    """Nothing that AWS's SDKs would find on this machine."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("BOTO_CONFIG", str(tmp_path / "none"))


@pytest.fixture
def task(monkeypatch, no_keys):
    """The endpoint at which a task of ECS gets the keys of its role; what it answers can be set."""
    answers = [ROLE]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(answers[0]).encode()
            self.send_response(200 if "Token" in answers[0] else 400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer((HOST, 0), Handler) as server:
        url = f"http://{HOST}:{server.server_address[1]}/keys"
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield answers
        server.shutdown()
        thread.join()


def test_those_of_the_environment_need_no_botocore(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    aws = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}

    assert Keychain(aws).keys() == Keys(access_key="A", secret_key="s", session_token="t")
    aws["AWS_SESSION_TOKEN"] = ""
    assert Keychain(aws).keys() == Keys(access_key="A", secret_key="s")


def test_those_of_a_tasks_role_are_read_by_botocore_and_tried_again(task):
    task[0] = {"Message": "busy"}
    keychain = Keychain({})
    told = "the keys of the role cannot be read now"
    with pytest.raises(RedisUnavailable, match=told) as refusal:
        keychain.keys()
    assert not isinstance(refusal.value, RedisMisconfigured)
    task[0] = ROLE
    assert keychain.keys() == Keys(
        access_key="ASIAROLE", secret_key="of-the-role", session_token="t0ken"
    )


def test_a_role_that_may_not_be_assumed_is_named(monkeypatch):
    """As of a profile with role_arn: STS answers, and refuses."""
    refusal = ClientError({"Error": {"Code": "AccessDenied", "Message": "No."}}, "AssumeRole")
    session = mock.Mock()
    session.get_credentials.side_effect = refusal
    monkeypatch.setattr("botocore.session.get_session", lambda: session)

    with pytest.raises(RedisUnavailable, match="AssumeRole operation: No"):
        Keychain({}).keys()


def test_without_any_keys_a_role_is_asked_for_and_without_botocore_the_extra(monkeypatch, no_keys):
    with pytest.raises(RedisMisconfigured, match="there are no AWS credentials; give the function"):
        Keychain({}).keys()
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(RedisMisconfigured, match=r"pip install 'kiqbridge\[aws\]'"):
        Keychain({}).keys()
