"""Buckets, and the size of requests."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from support.pages import Browser

from kiqbridge.web.limits import MAX_BUCKETS, Buckets
from kiqbridge.web.middleware import Layer, body_limit, faults


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_bucket_empties_and_fills_again():
    clock = Clock()
    buckets = Buckets(2, 0.5, clock)

    assert [buckets.take("a") for _ in range(3)] == [0, 0, 2]
    assert buckets.take("b") == 0
    clock.now = 1.5
    assert buckets.take("a") == pytest.approx(0.5)
    clock.now = 2.0
    assert buckets.take("a") == 0


def test_a_bucket_never_holds_more_than_its_capacity():
    clock = Clock()
    buckets = Buckets(2, 1, clock)
    buckets.give_back("a")
    clock.now = 1000

    assert [bool(buckets.take("a")) for _ in range(3)] == [False, False, True]


def test_what_is_given_back_does_not_count():
    buckets = Buckets(1, 0.01, Clock())

    for _ in range(5):
        assert buckets.take("a") == 0
        buckets.give_back("a")


def test_the_buckets_are_bounded_in_memory():
    buckets = Buckets(1, 1, Clock())

    for number in range(MAX_BUCKETS + 500):
        buckets.take(str(number))

    assert len(buckets._levels) == MAX_BUCKETS


async def count(request):
    return PlainTextResponse(str(len(await request.body())))


async def endless():
    for _ in range(100):
        yield b"x" * 100


@pytest.fixture
def browser():
    routes = [Route("/", count, methods=["POST"])]
    layers = [Middleware(Layer, serve) for serve in (faults, body_limit(1000))]
    return Browser(Starlette(routes=routes, middleware=layers))


def test_a_body_up_to_the_limit_is_read(browser):
    assert browser.request("POST", "/", content=b"x" * 1000).text == "1000"


def test_a_larger_body_is_refused_by_its_length_and_as_it_comes(browser):
    for content in (b"x" * 1001, endless()):
        answer = browser.request("POST", "/", content=content)
        assert answer.status_code == 413
        assert "1,000 bytes" in answer.text


@pytest.mark.parametrize("length", ["-1", "1e3", "x", "9" * 50])
def test_a_length_that_is_none_is_refused(browser, length):
    answer = browser.request("POST", "/", headers={"Content-Length": length}, content=b"")

    assert answer.status_code == 413
