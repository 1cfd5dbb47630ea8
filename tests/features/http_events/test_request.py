"""Requests over HTTP: what they say whoever passes them on, and who sent them."""

import pytest
from support.enqueue_function import read_event

from kiqbridge.features.http_events.http import HttpProblem, require_caller
from kiqbridge.features.http_events.http_request import (
    Integration,
    find_caller,
    read_request,
)

ROLE = "123456789012 AROAEXAMPLEROLEID4321"
SUBJECT = "0d1b4b28-2f6f-4a51-9b61-6d0a2a1f4d5b"
POOL = "eu-west-1.amazonaws.com/eu-west-1_EXAMPLE"


def caller(event):
    found = find_caller(read_request(event))
    return found and (found.by, found.name)


@pytest.mark.parametrize(
    ("name", "who"),
    [
        *((name, ("iam", ROLE)) for name in ("rest_iam", "api_iam", "url_iam")),
        ("rest_cognito", ("jwt", f"https://cognito-idp.{POOL} {SUBJECT}")),
        ("api_jwt", ("jwt", f"https://login.example.com/ {SUBJECT}")),
        *((name, ("authorizer", "partner-7")) for name in ("rest_authorizer", "api_authorizer")),
        *((name, None) for name in ("rest_open", "api_open", "url_open")),
    ],
)
def test_who_was_verified_is_known_and_nobody_on_an_open_route(name, who):
    assert caller(read_event(f"http/{name}")) == who


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
    identity = {"cognitoIdentityId": "eu-west-1:7", "cognitoAuthenticationType": "authenticated"}
    for event in (
        with_identity(**identity),
        with_authorizer("api_open", {"iam": iam(cognitoIdentity=pooled)}),
    ):
        assert caller(event) == ("iam", "eu-west-1:7")


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
        ("api_open", ("alb",), 401),
        ("api_iam", ("jwt", "authorizer"), 403),
        ("api_jwt", ("iam",), 403),
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
        ("api_iam", ("none",), "iam"),
        ("api_jwt", ("iam", "none"), "jwt"),
    ],
)
def test_what_the_operator_opens_is_open(name, auth, by):
    found = require_caller(read_request(read_event(f"http/{name}")), auth)

    assert found.by == by


def request(name, **changes):
    return read_request(read_event(f"http/{name}", **changes))


@pytest.mark.parametrize(
    ("name", "integration", "route", "stage"),
    [
        ("rest_iam", Integration.REST, "POST /jobs", "prod"),
        ("rest_authorizer", Integration.REST, "POST /jobs", "prod"),
        ("api_jwt", Integration.HTTP_API, "POST /jobs", ""),
        ("url_iam", Integration.FUNCTION_URL, "POST /jobs", ""),
        ("alb", Integration.ALB, "POST /jobs", ""),
        ("alb_multi_value", Integration.ALB, "POST /jobs", ""),
    ],
)
def test_method_path_and_route_are_the_same_whoever_passes_them_on(name, integration, route, stage):
    found = request(name)

    assert (found.integration, found.method, found.path) == (integration, "POST", "/jobs")
    assert (found.route, found.stage) == (route, stage)
    assert found.headers["content-type"].startswith("application/json")


def test_a_stage_is_no_part_of_the_path():
    event = read_event("http/api_jwt", rawPath="/live/jobs/7")
    event["requestContext"]["stage"] = "live"

    found = read_request(event)

    assert (found.path, found.stage) == ("/jobs/7", "live")


@pytest.mark.parametrize(
    ("name", "changes", "route"),
    [
        ("api_jwt", {"routeKey": "POST /jobs/{id}"}, "POST /jobs/{id}"),
        ("api_jwt", {"routeKey": "ANY /jobs/{id}"}, "POST /jobs/{id}"),
        ("api_jwt", {"routeKey": "$default"}, "POST /jobs"),
        ("rest_iam", {"resource": "/jobs/{id}"}, "POST /jobs/{id}"),
        ("rest_iam", {"resource": "/{proxy+}"}, "POST /jobs"),
    ],
)
def test_the_route_is_the_one_that_matched_unless_it_takes_everything(name, changes, route):
    assert request(name, **changes).route == route


def test_names_of_headers_have_no_case_and_several_are_joined_and_parameters_are_read():
    one = request("url_iam", headers={"X-Thing": "a"})
    several = request("alb_multi_value", multiValueHeaders={"X-Thing": ["a", "b"]})
    assert one.headers == {"x-thing": "a"}
    assert several.headers == {"x-thing": "a, b"}
    assert (one.has_multi_value_headers, several.has_multi_value_headers) == (False, True)
    rest = request("rest_iam", multiValueQueryStringParameters={"day": ["1", "2"]})
    assert (rest.query["day"], rest.query["foo"]) == ("2", "bar")
    assert rest.path_parameters == {"proxy": "/jobs"}
    assert request("alb").query == several.query == {"query": "a b"}
