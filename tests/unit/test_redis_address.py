"""Addresses of Redis: how they are shown and refused."""

import importlib.metadata

import pytest
import redis

from kiqbridge import Client
from kiqbridge.errors import ConfigError
from kiqbridge.store.redis_address import connection_factory, without_password


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
        "redis://:s3cret@host/abc",
        "redis://:s3cret@host:6379/1/2",
        "rediss://:s3cret@host/1x?socket_timeout=5",
    ],
)
def test_what_is_no_address_is_refused_without_the_password(url):
    with pytest.raises(ConfigError, match=r"^REDIS_URL: .* is not an address") as refusal:
        Client(url)

    text = "".join(map(str, [refusal.value, refusal.value.__cause__ or ""]))
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("url", "client"),
    [
        ("redis://localhost:1/0", None),
        ("unix:///nowhere", None),
        ("redis+sentinel://localhost:1/primary", None),
        ("redis+cluster://localhost:1", None),
        (None, redis.Redis(port=1)),
    ],
    ids=["TCP", "socket", "sentinel", "cluster", "client"],
)
def test_no_connection_reads_the_metadata_of_a_package_and_each_names_the_library(
    url, client, monkeypatch
):
    asked = []
    monkeypatch.setattr(importlib.metadata, "version", asked.append)

    made = connection_factory(url, client, 1.0, namespace="{jobs}").make_connection()

    assert asked == []
    assert made.driver_info.name == "redis-py"
    assert made.driver_info.lib_version == redis.__version__


@pytest.mark.filterwarnings("ignore:.*lib_name:DeprecationWarning")
def test_a_name_of_the_library_in_the_address_is_kept():
    made = connection_factory("redis://localhost:1/0?lib_name=shop", None, 1.0).make_connection()

    assert made.driver_info.name == "shop"
