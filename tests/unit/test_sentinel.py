"""Addresses of sentinels: what they say, and what may be shown of them."""

import pytest

from kiqbridge import ConfigError
from kiqbridge.store.nodes import PrimaryConnection, PrimarySSLConnection, parse
from kiqbridge.store.redis_address import without_password
from kiqbridge.store.redis_pool import RedisPool


def test_an_address_names_sentinels_service_database_and_both_users():
    address = parse(
        "redis+sentinel://ada:p%40ss@one:1,two,[::1]:3/my-kb/2"
        "?sentinel_username=watch&sentinel_password=s%2Fcret&socket_keepalive=true"
    )

    assert address.hosts == (("one", 1), ("two", 26379), ("::1", 3))
    assert (address.service, address.tls) == ("my-kb", False)
    assert address.options == {
        "username": "ada",
        "password": "p@ss",
        "db": 2,
        "socket_keepalive": True,
    }
    assert address.sentinel_options == {
        "username": "watch",
        "password": "s/cret",
        "socket_keepalive": True,
    }


def test_the_least_address_is_one_sentinel_and_the_service():
    address = parse("redis+sentinel://one/kb")

    assert (address.hosts, address.service) == ((("one", 26379),), "kb")
    assert address.options == {"db": 0}
    assert address.sentinel_options == {}


def test_options_of_tls_hold_for_the_sentinels_as_well():
    address = parse("rediss+sentinel://one/kb?ssl_cert_reqs=none&ssl_ca_certs=/ca.pem")

    assert address.tls
    assert address.sentinel_options == {"ssl_cert_reqs": "none", "ssl_ca_certs": "/ca.pem"}
    assert address.options == {"db": 0, **address.sentinel_options}


@pytest.mark.parametrize(
    ("scheme", "kind"), [("redis", PrimaryConnection), ("rediss", PrimarySSLConnection)]
)
@pytest.mark.parametrize("protocol", [2, 3])
def test_every_connection_of_a_pool_is_one_to_the_primary(scheme, kind, protocol):
    pool = RedisPool(f"{scheme}+sentinel://:secret@one:1,two:2/kb/1?sentinel_password=hidden")

    assert isinstance(pool.raw_connection(protocol=protocol, timeout_s=0.5), kind)
    assert pool.address == f"{scheme}+sentinel://:***@one:1,two:2/kb/1?sentinel_password=***"
    assert "secret" not in repr(pool)


def test_neither_password_is_shown():
    url = "rediss+sentinel://u:a/b@c@h:1,i:2/kb/0?sentinel_username=w&sentinel_password=x&db=1"

    assert without_password(url) == (
        "rediss+sentinel://u:***@h:1,i:2/kb/0?sentinel_username=w&sentinel_password=***&db=1"
    )


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://:secret@one:1",
        "redis+sentinel://:secret@one:1/",
        "redis+sentinel://:secret@one:1/kb/zero",
        "redis+sentinel://:secret@one:port/kb",
        "redis+sentinel://:secret@one:1,/kb",
        "redis+sentinel://:secret@/kb",
        "redis+sentinel://:secret@one:1/kb?socket_timeout=soon",
        "redis+sentinel://:secret@one:1/kb?sentinel_password=secret&max_connections=x",
    ],
)
def test_what_is_no_address_is_refused_without_the_passwords(url):
    with pytest.raises(ConfigError, match=r"redis\+sentinel://host:26379") as refused:
        RedisPool(url)

    assert "secret" not in str(refused.value)
