"""Addresses of Redis, sentinels and clusters: what they say and show, and where they are kept."""

import importlib.metadata

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from redis.connection import parse_url
from support.processes import run_python

from kiqbridge import Client
from kiqbridge.config.credentials.stored_address import address_of
from kiqbridge.config.environment import read_access
from kiqbridge.config.merge import merge
from kiqbridge.config.redis_access import RedisAccess
from kiqbridge.errors import ConfigError
from kiqbridge.store.nodes import (
    ClusterNodes,
    OwnerConnection,
    OwnerSSLConnection,
    PrimaryConnection,
    PrimarySSLConnection,
    _of_shards,
    _of_slots,
    parse,
    slot_of,
)
from kiqbridge.store.redis_address import connection_factory, without_password
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.scripts import from_text


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
        ('{"password": "s3cret"', BASE, "begins as a JSON object"),
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


NAMESPACE = "{app}"


SENTINEL = "+sentinel://:{}@one:1,two:2/kb/1?sentinel_password={}"
CLUSTER = "+cluster://:{}@one:1,two:2"


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        (f"redis{SENTINEL}", PrimaryConnection),
        (f"rediss{SENTINEL}", PrimarySSLConnection),
        (f"redis{CLUSTER}", OwnerConnection),
        (f"rediss{CLUSTER}", OwnerSSLConnection),
    ],
)
def test_every_connection_of_a_pool_finds_the_primary_or_the_owner(form, kind):
    pool = RedisPool(form.format("secret", "hidden"), namespace=NAMESPACE)

    assert isinstance(pool.raw_connection(), kind)
    assert pool.address == form.format("***", "***")
    assert "secret" not in repr(pool)


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
        "redis+cluster://:secret@",
        "redis+cluster://:secret@one:port",
        "redis+cluster://:secret@one:1,",
        "redis+cluster://:secret@one:1/1",
        "redis+cluster://:secret@one:1/name",
        "redis+cluster://:secret@one:1?db=2",
        "redis+cluster://:secret@one:1?socket_timeout=soon",
    ],
)
def test_what_is_no_address_is_refused_without_the_passwords(url):
    with pytest.raises(
        ConfigError, match=r"redis\+sentinel://host:26379.*redis\+cluster://"
    ) as refused:
        RedisPool(url, namespace=NAMESPACE)

    assert "secret" not in str(refused.value)


def test_an_address_names_nodes_user_and_options():
    address = parse("redis+cluster://ada:p%40ss@one:1,two,[::1]:3/0?socket_keepalive=true")
    assert address.hosts == (("one", 1), ("two", 6379), ("::1", 3))
    assert not address.tls
    assert address.options == {"username": "ada", "password": "p@ss", "socket_keepalive": True}
    # The least one is a name such as the configuration endpoint of ElastiCache.
    address = parse("rediss+cluster://clustercfg.jobs.abc.euw1.cache.amazonaws.com")
    assert address.hosts == (("clustercfg.jobs.abc.euw1.cache.amazonaws.com", 6379),)
    assert (address.tls, address.options) == (True, {})
    with pytest.raises(ConfigError, match="sentinel_password is not an option of such an address"):
        RedisPool("redis+cluster://one?sentinel_password=x", namespace=NAMESPACE)


@pytest.mark.parametrize("namespace", ["", "app", "{}", "{app"])
def test_a_namespace_without_a_hash_tag_is_refused_with_what_to_write(namespace):
    with pytest.raises(ConfigError, match=r"KIQBRIDGE_NAMESPACE to a name in braces") as refused:
        Client("redis+cluster://:secret@one:1", namespace=namespace)

    assert "secret" not in str(refused.value)


def test_the_namespace_is_that_of_the_settings_unless_one_is_given():
    environ = {"REDIS_URL": "redis+cluster://one", "KIQBRIDGE_NAMESPACE": "{app}:"}

    assert RedisPool(read_access(environ)).address == "redis+cluster://one"
    with pytest.raises(ConfigError, match="the namespace 'other'"):
        RedisPool(read_access(environ), namespace="other")


@pytest.mark.parametrize(
    ("prefix", "slot"), [("{123456789}:", 12739), ("{foo}:", 12182), ("shop-{foo}-{bar}:", 12182)]
)
def test_the_slot_is_that_of_the_hash_tag(prefix, slot):
    # 12739 is 0x31C3, the check value of the CRC that Redis' specification of clusters names.
    assert slot_of(prefix) == slot


def test_nodes_are_read_from_slots_as_managed_services_write_them():
    answer = [
        [0, 99, [b"10.0.0.1", 1, b"id", [b"hostname", b"one.example"]], [b"two.example", 2, b"id"]],
        [100, 199, [b"", 3, b"id"], [None, 4, b"id"]],
        [200, 299, [b"?", 5, b"id", [b"ip", b"10.0.0.5"]], [b"?", 6, b"id", []]],
    ]

    assert list(_of_slots(answer)) == [
        (0, 99, [("10.0.0.1", 1), ("two.example", 2)]),
        (100, 199, [("", 3), ("", 4)]),
        (200, 299, [("10.0.0.5", 5), ("?", 6)]),
    ]


def test_nodes_are_read_from_shards_the_living_primary_first():
    def node(endpoint, role, health=b"online"):
        return [b"id", b"x", b"port", 1, b"tls-port", 2, b"endpoint", endpoint, b"role", role, b"health", health]  # fmt: skip

    answer = [
        [b"slots", [0, 9, 20, 29], b"nodes", [node(b"r", b"replica"), node(b"p", b"master")]],
        [b"slots", [30, 39], b"nodes", [node(b"d", b"master", b"fail"), node(b"q", b"master")]],
        [b"slots", [], b"nodes", [node(b"e", b"master")]],
        [b"slots", [40, 49], b"nodes", [node(b"o", b"replica")]],
    ]

    assert list(_of_shards(answer, tls=False)) == [
        (0, 9, [("p", 1), ("r", 1)]),
        (20, 29, [("p", 1), ("r", 1)]),
        (30, 39, [("q", 1), ("d", 1)]),
    ]
    assert next(_of_shards(answer, tls=True)) == (0, 9, [("p", 2), ("r", 2)])


def test_the_guard_leaves_the_lines_of_a_script_and_its_own_keys_as_they_are():
    nodes = ClusterNodes(parse("redis+cluster://one"), "{app}:")
    script = from_text("#!lua flags=no-writes\n-- a comment\nreturn #KEYS\n")

    guarded, keys = nodes.guarded(script, ["{app}:a"])

    assert guarded.text == "#!lua flags=no-writes\ntable.remove(KEYS); -- a comment\nreturn #KEYS\n"
    assert guarded.sha != script.sha
    assert keys == ("{app}:a", "{app}:kb:none")
    assert nodes.guarded(script, [])[0] is guarded


def test_nothing_of_it_is_loaded_for_other_addresses():
    code = (
        "import sys, kiqbridge; from kiqbridge.aws.environment import open_client; "
        "open_client({'REDIS_URL': 'redis://one'}); "
        "print([name for name in sys.modules if name.startswith('kiqbridge.store.nodes')])"
    )

    assert run_python(code).stdout == "[]\n"


def test_an_address_names_sentinels_service_database_and_both_users():
    address = parse(
        "redis+sentinel://ada:p%40ss@one:1,two,[::1]:3/my-kb/2"
        "?sentinel_username=watch&sentinel_password=s%2Fcret&socket_keepalive=true"
    )
    assert address.hosts == (("one", 1), ("two", 26379), ("::1", 3))
    assert (address.service, address.tls) == ("my-kb", False)
    both = {"socket_keepalive": True}
    assert address.options == {"username": "ada", "password": "p@ss", "db": 2, **both}
    assert address.sentinel_options == {"username": "watch", "password": "s/cret", **both}
    address = parse("rediss+sentinel://one/kb?ssl_cert_reqs=none&ssl_ca_certs=/ca.pem")
    assert address.tls
    assert (address.hosts, address.service) == ((("one", 26379),), "kb")
    assert address.sentinel_options == {"ssl_cert_reqs": "none", "ssl_ca_certs": "/ca.pem"}
    assert address.options == {"db": 0, **address.sentinel_options}


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
