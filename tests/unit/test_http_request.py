"""Requests of every integration in one form, and never an error for what is missing or odd."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.enqueue_function import EVENTS, read_event
from support.strategies import mutated

from kiqbridge.aws.sources.http_request import HttpRequest, Integration, read_request

NAMES = sorted(path.stem for path in (EVENTS / "http").glob("*.json"))


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
    ("key", "route"),
    [
        ("POST /jobs/{id}", "POST /jobs/{id}"),
        ("ANY /jobs/{id}", "POST /jobs/{id}"),
        ("$default", "POST /jobs"),
    ],
)
def test_the_route_is_the_one_that_matched(key, route):
    assert request("api_jwt", routeKey=key).route == route


def test_a_route_of_a_rest_api_is_its_resource_unless_it_takes_everything():
    assert request("rest_iam", resource="/jobs/{id}").route == "POST /jobs/{id}"
    assert request("rest_iam", resource="/{proxy+}").route == "POST /jobs"


def test_names_of_headers_have_no_case_and_several_are_joined():
    one = request("url_iam", headers={"X-Thing": "a"})
    several = request("alb_multi_value", multiValueHeaders={"X-Thing": ["a", "b"]})

    assert one.headers == {"x-thing": "a"}
    assert several.headers == {"x-thing": "a, b"}
    assert (one.has_multi_value_headers, several.has_multi_value_headers) == (False, True)


def test_query_and_path_parameters():
    rest = request("rest_iam", multiValueQueryStringParameters={"day": ["1", "2"]})
    alb, several = request("alb"), request("alb_multi_value")

    assert (rest.query["day"], rest.query["foo"]) == ("2", "bar")
    assert rest.path_parameters == {"proxy": "/jobs"}
    assert alb.query == several.query == {"query": "a b"}


@given(st.sampled_from(NAMES).flatmap(lambda name: mutated(read_event(f"http/{name}"), changes=6)))
def test_whatever_an_event_holds_there_is_a_request(event):
    found = read_request(event)

    assert isinstance(found, HttpRequest)
    assert all(isinstance(text, str) for text in (*found.headers, *found.headers.values()))
    assert isinstance(found.method, str) and isinstance(found.route, str)
