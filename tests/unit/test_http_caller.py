"""Who sent a request: only what the integration has verified counts, and nobody is nobody."""

import pytest
from support.enqueue_function import read_event

from kiqbridge.aws.sources.http import require_caller
from kiqbridge.aws.sources.http_answer import HttpProblem
from kiqbridge.aws.sources.http_request import find_caller, read_request

ROLE = "123456789012 AROAEXAMPLEROLEID4321"
SUBJECT = "0d1b4b28-2f6f-4a51-9b61-6d0a2a1f4d5b"


def caller(event):
    found = find_caller(read_request(event))
    return found and (found.by, found.name)


@pytest.mark.parametrize(
    ("name", "by", "who"),
    [
        ("rest_iam", "iam", ROLE),
        ("api_iam", "iam", ROLE),
        ("url_iam", "iam", ROLE),
        (
            "rest_cognito",
            "jwt",
            f"https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_EXAMPLE {SUBJECT}",
        ),
        ("api_jwt", "jwt", f"https://login.example.com/ {SUBJECT}"),
        ("rest_authorizer", "authorizer", "partner-7"),
        ("api_authorizer", "authorizer", "partner-7"),
    ],
)
def test_who_was_verified_is_known(name, by, who):
    assert caller(read_event(f"http/{name}")) == (by, who)


@pytest.mark.parametrize("name", ["rest_open", "api_open", "url_open"])
def test_nobody_is_verified_on_an_open_route(name):
    assert caller(read_event(f"http/{name}")) is None


def with_identity(**changes):
    event = read_event("http/rest_iam")
    event["requestContext"]["identity"].update(changes)
    return event


def with_authorizer(name, authorizer):
    event = read_event(f"http/{name}")
    event["requestContext"]["authorizer"] = authorizer
    return event


def iam(**changes):
    return {**read_event("http/api_iam")["requestContext"]["authorizer"]["iam"], **changes}


@pytest.mark.parametrize(
    "event",
    [
        with_identity(userArn=None),
        with_identity(accountId=None),
        with_identity(cognitoIdentityId="eu-west-1:1", cognitoAuthenticationType="unauthenticated"),
        with_identity(userArn=None, apiKey="a-key", apiKeyId="1"),
        with_authorizer("rest_open", {}),
        with_authorizer("rest_open", {"claims": None, "scopes": None}),
        with_authorizer("rest_open", {"integrationLatency": 5}),
        with_authorizer("rest_open", {"principalId": ""}),
        with_authorizer("api_open", {"jwt": {"claims": {}, "scopes": None}}),
        with_authorizer("api_open", {"lambda": None}),
        with_authorizer("api_open", {"lambda": {}}),
        with_authorizer("api_open", {"iam": iam(userArn=None)}),
        with_authorizer("api_open", {"iam": iam(cognitoIdentity={"amr": ["unauthenticated"], "identityId": "1"})}),
        with_authorizer("api_open", {"iam": iam(cognitoIdentity={"amr": None, "identityId": "1"})}),
        read_event("http/url_open", authorizer={"iam": iam()}),
    ],
)  # fmt: skip
def test_what_proves_nothing_counts_as_nobody(event):
    assert caller(event) is None


def test_headers_prove_nothing():
    event = read_event("http/url_open")
    event["headers"] |= {
        "authorization": "Bearer eyJhbGciOiJub25lIn0.e30.",
        "x-amzn-oidc-identity": "admin",
        "x-amzn-oidc-data": "eyJhbGciOiJub25lIn0.e30.",
        "x-api-key": "a-key",
    }

    assert caller(event) is None


def test_a_pool_of_identities_knows_its_own_callers():
    pooled = {"amr": ["authenticated", "login.example.com"], "identityId": "eu-west-1:7"}

    assert caller(
        with_identity(cognitoIdentityId="eu-west-1:7", cognitoAuthenticationType="authenticated")
    ) == ("iam", "eu-west-1:7")
    assert caller(with_authorizer("api_open", {"iam": iam(cognitoIdentity=pooled)})) == (
        "iam",
        "eu-west-1:7",
    )


def test_a_caller_without_a_name_is_the_same_from_token_to_token_and_another_than_others():
    first, later, other = (
        caller(with_authorizer("api_open", {"jwt": {"claims": claims}}))
        for claims in (
            {"scope": "jobs", "exp": "1", "jti": "a"},
            {"scope": "jobs", "exp": "2", "jti": "b"},
            {"scope": "all", "exp": "1", "jti": "a"},
        )
    )

    assert first == later != other


@pytest.mark.parametrize(
    ("name", "auth", "status"),
    [
        ("api_open", ("iam", "jwt", "authorizer"), 401),
        ("api_open", ("alb",), 401),
        ("api_iam", ("jwt", "authorizer"), 403),
        ("api_jwt", ("iam",), 403),
        ("alb", ("iam", "jwt", "authorizer"), 403),
    ],
)
def test_only_the_ways_that_are_accepted_are(name, auth, status):
    with pytest.raises(HttpProblem) as raised:
        require_caller(read_request(read_event(f"http/{name}")), auth)

    assert raised.value.status == status
    assert all(word in str(raised.value) for word in auth)
    assert ("WWW-Authenticate" in raised.value.headers) == (status == 401)


@pytest.mark.parametrize(
    ("name", "auth", "by"),
    [
        ("alb", ("alb",), "alb"),
        ("api_open", ("none",), "none"),
        ("api_iam", ("none",), "iam"),
        ("api_jwt", ("iam", "none"), "jwt"),
    ],
)
def test_what_the_operator_opens_is_open(name, auth, by):
    found = require_caller(read_request(read_event(f"http/{name}")), auth)

    assert found.by == by
