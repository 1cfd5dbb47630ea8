"""Who signed a request, by the events that AWS sends."""

import json
from pathlib import Path

import pytest

from kiqbridge.web.auth import find_arn

EVENTS = Path(__file__).parents[1] / "kernel" / "lambdas" / "events" / "http"


def event(name, **changes):
    return json.loads((EVENTS / f"{name}.json").read_text()) | changes


@pytest.mark.parametrize("name", ["rest_iam", "api_iam", "url_iam"])
def test_the_identity_is_the_one_that_aws_has_verified(name):
    assert find_arn(event(name)).startswith("arn:aws:")


@pytest.mark.parametrize("name", ["rest_open", "rest_authorizer", "rest_cognito"])
def test_without_a_signature_there_is_none(name):
    assert find_arn(event(name)) is None


@pytest.mark.parametrize(
    "nothing",
    [None, 5, {}, {"requestContext": None}, {"requestContext": {"authorizer": {"iam": 1}}}],
)
def test_of_anything_else_there_is_none(nothing):
    assert find_arn(nothing) is None


def test_a_header_proves_nothing():
    forged = event("rest_open") | {"headers": {"requestContext": json.dumps(event("rest_iam"))}}

    assert find_arn(forged) is None


def test_a_guest_of_a_cognito_pool_does_not_count():
    iam = {"userArn": "arn:aws:sts::1:assumed-role/Guest/x", "accountId": "1"}
    guest = {"authorizer": {"iam": iam | {"cognitoIdentity": {"amr": ["unauthenticated"]}}}}
    member = {"authorizer": {"iam": iam | {"cognitoIdentity": {"amr": ["authenticated"]}}}}
    rest = {"identity": iam | {"cognitoAuthenticationType": "unauthenticated"}}

    assert find_arn({"requestContext": guest}) is None
    assert find_arn({"requestContext": rest}) is None
    assert find_arn({"requestContext": member}) == iam["userArn"]
