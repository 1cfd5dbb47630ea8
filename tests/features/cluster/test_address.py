"""Addresses of sentinels and clusters: what they say and show."""

import pytest
import redis
from support.processes import run_python

from kiqbridge import Client
from kiqbridge.config.client_settings import read_access
from kiqbridge.errors import ConfigError
from kiqbridge.features.cluster.nodes import (
    ClusterNodes,
    OwnerConnection,
    OwnerSSLConnection,
    _of_shards,
    _of_slots,
    parse,
    slot_of,
)
from kiqbridge.features.cluster.pool import PrimaryConnection, PrimarySSLConnection
from kiqbridge.store.redis_address import connection_factory
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.scripts import from_text

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
        "print([name for name in sys.modules if name.startswith('kiqbridge.features.cluster')])"
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


@pytest.mark.parametrize(
    "url", ["redis+sentinel://localhost:1/primary", "redis+cluster://localhost:1"]
)
def test_each_connection_names_the_library(url):
    made = connection_factory(url, None, 1.0, namespace="{jobs}").make_connection()

    assert (made.driver_info.name, made.driver_info.lib_version) == ("redis-py", redis.__version__)
