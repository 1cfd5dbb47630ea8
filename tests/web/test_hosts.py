"""Host names, and proxies."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from support.pages import Browser

from kiqbridge.errors import ConfigError
from kiqbridge.web.middleware import (
    LOOPBACK_HOSTS,
    Layer,
    is_loopback,
    known_hosts,
    parse_base_path,
    parse_networks,
    trusted_proxies,
)


def show(request):
    return PlainTextResponse(
        f"{request.client.host} {request.url.scheme} {request.headers['host']}"
    )


def browser(serve):
    return Browser(Starlette(routes=[Route("/", show)], middleware=[Middleware(Layer, serve)]))


@pytest.mark.parametrize(
    "host", ["localhost:8000", "127.0.0.1", "LOCALHOST", "[::1]:80", "localhost."]
)
def test_on_loopback_its_own_names_are_served(host):
    local = browser(known_hosts(LOOPBACK_HOSTS))

    assert local.request("GET", "/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost:1:2",
        "",
        "a b",
    ],
)
def test_a_name_that_was_pointed_to_loopback_is_not(host):
    local = browser(known_hosts(LOOPBACK_HOSTS))

    answer = local.request("GET", "/", headers={"Host": host})

    assert answer.status_code == 421
    assert "KIQBRIDGE_WEB_HOSTS" in answer.text


def test_a_star_stands_for_subdomains():
    ours = browser(known_hosts(["*.example.com"]))
    answers = {
        host: ours.request("GET", "/", headers={"Host": host}).status_code
        for host in ("ops.example.com", "example.com", "a.b.example.com", "evilexample.com")
    }

    assert answers == {
        "ops.example.com": 200,
        "example.com": 421,
        "a.b.example.com": 421,
        "evilexample.com": 421,
    }


def test_without_names_all_are_served():
    assert (
        browser(known_hosts(None)).request("GET", "/", headers={"Host": "x.y"}).status_code == 200
    )


FORWARDED = {
    "X-Forwarded-For": "6.6.6.6, 203.0.113.9, 10.0.0.7",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "ops.example.com",
}


def test_of_a_trusted_proxy_the_nearest_address_counts_that_is_no_proxy():
    networks = parse_networks(["127.0.0.1", "10.0.0.0/8"], "test")

    answer = browser(trusted_proxies(networks)).request("GET", "/", headers=FORWARDED)

    assert answer.text == "203.0.113.9 https ops.example.com"


@pytest.mark.parametrize(
    ("header", "forged"),
    [
        ({"X-Forwarded-Proto": "https,http", "X-Forwarded-Host": "ops.example.com, inner"}, {}),
        (
            {"X-Forwarded-Proto": "https,http", "X-Forwarded-Host": "ops.example.com, inner"},
            {
                "X-Forwarded-For": "6.6.6.6",
                "X-Forwarded-Proto": "gopher",
                "X-Forwarded-Host": "evil",
            },
        ),
        ({"X-Forwarded-Proto": "https", "X-Forwarded-Host": "ops.example.com"}, {}),
    ],
)
def test_of_two_trusted_proxies_scheme_and_host_are_those_of_the_hop_of_the_address(header, forged):
    networks = parse_networks(["127.0.0.1", "10.0.0.5"], "test")
    headers = {"X-Forwarded-For": "203.0.113.9, 10.0.0.5", **header}
    headers |= {name: f"{value}, {headers[name]}" for name, value in forged.items()}

    answer = browser(trusted_proxies(networks)).request("GET", "/", headers=headers)

    assert answer.text == "203.0.113.9 https ops.example.com"


def test_of_anybody_else_no_forwarding_header_counts():
    for networks in ((), parse_networks(["10.0.0.0/8"], "test")):
        answer = browser(trusted_proxies(networks)).request("GET", "/", headers=FORWARDED)
        assert answer.text == "127.0.0.1 http testserver"


def test_nonsense_of_a_trusted_proxy_changes_nothing():
    networks = parse_networks(["127.0.0.1"], "test")
    nonsense = {
        "X-Forwarded-For": "evil\t\x1b[2J",
        "X-Forwarded-Proto": "gopher",
        "X-Forwarded-Host": "a b",
    }

    answer = browser(trusted_proxies(networks)).request("GET", "/", headers=nonsense)

    assert answer.text == "127.0.0.1 http testserver"


def test_a_network_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="web_proxies: 'proxy' is no address"):
        parse_networks(["proxy"], "test")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.4", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_only_this_machine_reaches_loopback(host, local):
    assert is_loopback(host) is local


@pytest.mark.parametrize(
    "path", ["//evil.example", "/..", "/ops/./jobs", "/ops//jobs", "/ops;jobs"]
)
def test_a_base_path_that_browsers_would_resolve_or_that_is_none_is_refused(path):
    with pytest.raises(ConfigError, match="is no path"):
        parse_base_path(path)
