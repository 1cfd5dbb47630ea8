"""Addresses of Redis: what they say and show, and where they are kept."""

import importlib.metadata

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from redis.connection import parse_url

from kiqbridge import Client, seams
from kiqbridge.config.client_settings import RedisAccess, read_access
from kiqbridge.config.credentials.aws_request import address_of
from kiqbridge.config.merge import merge
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
        (
            "rediss+sentinel://u:a/b@c@h:1,i:2/kb/0?sentinel_username=w&sentinel_password=x&db=1",
            "rediss+sentinel://u:***@h:1,i:2/kb/0?sentinel_username=w&sentinel_password=***&db=1",
        ),
    ],
)
def test_it_is_shown_without_the_password(url, shown):
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379",
        "http://:s3cret@host",
        "amqp://:s3cret@host",
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
        (None, redis.Redis(port=1)),
    ],
    ids=["TCP", "socket", "client"],
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


def test_an_address_of_several_nodes_names_the_feature_that_is_not_here(monkeypatch):
    monkeypatch.setattr(seams, "by_name", lambda _seam: {})

    with pytest.raises(ConfigError, match=r"the feature that opens redis\+cluster:// is not here"):
        connection_factory("redis+cluster://:secret@one", None, 1.0)


@pytest.mark.filterwarnings("ignore:.*lib_name:DeprecationWarning")
def test_a_name_of_the_library_in_the_address_is_kept():
    made = connection_factory("redis://localhost:1/0?lib_name=shop", None, 1.0).make_connection()

    assert made.driver_info.name == "shop"


BASE = "rediss://old@host.example:6380/2?ssl_ca_certs=/ca.pem"


@pytest.mark.parametrize(
    ("stored", "base", "address"),
    [
        (" rediss://u:p@host/0\n", BASE, "rediss://u:p@host/0"),
        ('{"url": "rediss://u:p@host/0", "password": "other"}', BASE, "rediss://u:p@host/0"),
        (
            '{"host": "h", "port": 6380, "username": "u", "password": "p/@", "db": 3}',
            None,
            "rediss://u:p%2F%40@h:6380/3",
        ),
        ('{"host": "h", "ssl": false}', None, "redis://h:6379/0"),
        ('{"host": "h", "port": "6380", "ssl": "false"}', None, "redis://h:6380/0"),
        ('{"host": "::1", "password": "p"}', None, "rediss://:p@[::1]:6379/0"),
        ('{"host": "h"}', BASE, "rediss://h:6379/0?ssl_ca_certs=/ca.pem"),
        (
            '{"username": "new", "password": "p?"}',
            BASE,
            "rediss://new:p%3F@host.example:6380/2?ssl_ca_certs=/ca.pem",
        ),
        ("a password", BASE, "rediss://old:a%20password@host.example:6380/2?ssl_ca_certs=/ca.pem"),
        ("pw", "redis://h", "redis://:pw@h"),
        ("pw", "redis://u:former@h?db=1", "redis://u:pw@h?db=1"),
        ("pw", "redis+sentinel://s1,s2/mymaster/0", "redis+sentinel://:pw@s1,s2/mymaster/0"),
    ],
)
def test_an_address_is_made(stored, base, address):
    assert address_of(stored, base) == address


@given(st.text(min_size=1).filter(lambda text: text.strip()), st.text(min_size=1))
def test_any_user_and_password_arrive_as_they_are(user, password):
    import json

    stored = json.dumps({"host": "h", "username": user, "password": password})
    try:
        user.encode()
        password.encode()
    except UnicodeEncodeError:
        return

    parsed = parse_url(address_of(stored, None))

    assert (parsed["username"], parsed["password"]) == (user, password)


@pytest.mark.parametrize(
    ("stored", "base", "words"),
    [
        ("", BASE, "it is empty"),
        ('{"password": "s3cret"', BASE, "begins like a JSON object"),
        ('{"url": "s3cret"}', BASE, "its url is not an address"),
        ('{"password": 1}', BASE, "its password is not a text"),
        ('{"host": "h", "port": "s3cret"}', BASE, "port or db is not a whole number"),
        ('{"user_arn": "arn"}', BASE, "neither url nor host nor password"),
        ('{"password": "s3cret"}', None, "set REDIS_URL"),
        ("s3cret", None, "set REDIS_URL"),
    ],
)
def test_what_makes_no_address_is_refused_without_quoting_it(stored, base, words):
    with pytest.raises(ValueError, match=words) as refusal:
        address_of(stored, base)

    assert "s3cret" not in str(refusal.value)


ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:redis-AbCdEf"
IAM = {"iam_user": "app", "iam_cache": "jobs"}


def test_the_environment_is_read_and_a_worker_reads_the_same():
    environ = {
        "REDIS_URL": "rediss://host",
        "REDIS_SECRET_ARN": ARN,
        "AWS_REGION": "eu-west-1",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "PATH": "/bin",
    }
    access = read_access(environ)
    assert (access.url, access.url_is_default) == ("rediss://host", False)
    assert access.secret_arn == ARN
    assert access.aws == {"AWS_REGION": "eu-west-1", "AWS_SECRET_ACCESS_KEY": "s3cret"}
    assert "s3cret" not in repr(access)
    environ = {"REDIS_SSM_PARAMETER": "/redis", "AWS_DEFAULT_REGION": "eu-west-1"}
    config = merge(environ=environ, flags={})
    assert config.redis == read_access(environ)
    assert config.redis.url_is_default
    assert config.redis.region == "eu-west-1"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("SECRET_ARN SSM_PARAMETER", "REDIS_SECRET_ARN and REDIS_SSM_PARAMETER are set"),
        ("SECRET_ARN IAM_USER IAM_CACHE", "REDIS_SECRET_ARN and REDIS_IAM_USER are set"),
        ("IAM_USER", "REDIS_IAM_USER is set and REDIS_IAM_CACHE is not"),
        ("IAM_CACHE", "REDIS_IAM_CACHE is set and REDIS_IAM_USER is not"),
    ],
)
def test_settings_that_exclude_each_other(names, words):
    with pytest.raises(ConfigError, match=words):
        read_access({f"REDIS_{name}": "x" for name in names.split()})


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("", {"secret_arn": "redis"}, "its region is not known"),
        ("", {"ssm_parameter": "/redis"}, "its region is not known"),
        ("rediss://host", IAM, "REDIS_IAM_USER: the region is not known"),
        ("redis://host", IAM, "only sent over TLS"),
        ("redis://127.0.0.1.example", IAM, "only sent over TLS"),
        ("rediss://:s3cret@host", IAM, "leave user and password out"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_opened(url, more, words):
    with pytest.raises(ConfigError, match=words) as refusal:
        Client(RedisAccess(url=url, **more))
    assert "s3cret" not in str(refusal.value)


def test_an_address_in_code_goes_before_the_environment(monkeypatch):
    assert "secret:redis-AbCdEf" in repr(Client(RedisAccess(url="", secret_arn=ARN)))
    monkeypatch.setenv("REDIS_SECRET_ARN", ARN)  # whose region is enough
    assert "redis://elsewhere" in repr(Client("redis://elsewhere"))
    assert "secret:redis-AbCdEf" in repr(Client())


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+sentinel", "redis+cluster"])
@pytest.mark.parametrize("password", ["123#s3cret", "s3cret#1", "s3#cret/4"])
def test_a_raw_hash_is_refused_and_nothing_of_the_password_is_shown(scheme, password):
    with pytest.raises(ConfigError, match="write %23") as raised:
        connection_factory(f"{scheme}://u:{password}@h:6379/0", None, 1.0)
    assert "123" not in str(raised.value) and "s3" not in str(raised.value)
