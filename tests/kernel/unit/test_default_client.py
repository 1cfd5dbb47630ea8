"""The client that declared jobs push through."""

import pytest

from kiqbridge.client.client import Client
from kiqbridge.client.default_client import (
    add_default_middleware,
    adopt_default_client,
    configure,
    default_client,
    own_default_client,
    release_default_client,
)


@pytest.fixture(autouse=True)
def nothing_configured():
    with own_default_client():
        yield


def keep(_job_class, _payload, _queue, call_next):
    return call_next()


def test_without_one_it_is_made_from_the_environment_once(monkeypatch):
    monkeypatch.setenv("KIQBRIDGE_NAMESPACE", "shop")

    made = default_client()

    assert made.keys.prefix == "shop:"
    assert default_client() is made


def test_that_of_a_worker_counts_until_it_is_released_and_never_over_a_configured_one():
    of_worker = Client("redis://worker.invalid/0")

    adopt_default_client(of_worker)
    assert default_client() is of_worker

    release_default_client(of_worker)
    configured = configure("redis://own.invalid/0")
    adopt_default_client(of_worker)
    release_default_client(of_worker)
    assert default_client() is configured


def test_middleware_is_added_to_the_present_client_and_to_later_ones_of_which_the_last_is_used():
    before = configure("redis://one.invalid/0")
    add_default_middleware(keep)
    assert list(before.middleware) == [keep]
    second = configure("redis://two.invalid/0")
    assert list(second.middleware) == [keep]
    assert default_client() is second


def test_what_is_configured_within_is_forgotten_at_the_end():
    outside = configure("redis://outside.invalid/0")

    with own_default_client():
        add_default_middleware(keep)
        inside = configure("redis://inside.invalid/0")
        assert default_client() is inside

    assert default_client() is outside
    assert list(configure("redis://later.invalid/0").middleware) == []
