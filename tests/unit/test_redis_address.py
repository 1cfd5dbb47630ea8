"""Addresses of Redis: how they are shown and refused."""

import pytest

from kiqbridge import Client
from kiqbridge.errors import ConfigError
from kiqbridge.store.redis_address import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:s3cret@host:6379/0", "redis://:***@host:6379/0"),
        ("rediss://user:s3cret@host/2?x=1", "rediss://user:***@host/2?x=1"),
        ("redis://s3cret@host", "redis://:***@host"),
        ("redis://:s3/cr@et@host:1/0", "redis://:***@host:1/0"),
        ("redis://host:1/0?password=s3cret&db=2", "redis://host:1/0?password=***&db=2"),
        ("unix://:s3cret@/run/redis.sock", "unix://:***@/run/redis.sock"),
    ],
)
def test_it_is_shown_without_the_password(url, shown):
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://:s3cret@host",
        "redis://:s3cret@host:port/0",
        "redis://:s3cret/x@host:6379",
        "redis://:s3cret@[host",
    ],
)
def test_what_is_no_address_is_refused_without_the_password(url):
    with pytest.raises(ConfigError, match=r"^REDIS_URL: .* is not an address") as refusal:
        Client(url)

    text = "".join(map(str, [refusal.value, refusal.value.__cause__ or ""]))
    assert "s3cret" not in text
