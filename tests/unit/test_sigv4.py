"""Signatures are those that botocore makes."""

import datetime as dt
import hashlib
import re
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import botocore.auth
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.credentials.sigv4 import Keys, Signer

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
