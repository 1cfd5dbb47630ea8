"""A user of ElastiCache logs in with a token that is made for each connection and is good for 15 minutes."""

import sys
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.credentials import Credentials
from botocore.hooks import HierarchicalEmitter
from botocore.model import ServiceId
from botocore.signers import RequestSigner
from support.aws_services import KEYS, REGION
from support.waiting import wait_until

from kiqbridge import Client
from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.config.credentials.iam_token import TOKEN_LIFE_S, IamTokens
from kiqbridge.errors import KiqbridgeError, RedisMisconfigured
from kiqbridge.store import redis_source
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.tracking_connection import TrackingConnection

NOON = 1_795_348_800.0


def access(url, cache="Jobs"):
    aws = {**KEYS, "AWS_REGION": REGION}
    return RedisAccess(url=url, iam_user="app", iam_cache=cache, aws=aws)


@pytest.fixture
def cache(redis):
    """Lets the user `app` in with this token only, as the server itself judges tokens on ElastiCache."""

    def accept(token):
        redis.execute_command(
            "ACL", "SETUSER", "app", "reset", "on", f">{token}", "~*", "&*", "+@all"
        )

    yield accept
    redis.execute_command("ACL", "DELUSER", "app")


@pytest.fixture
def now():
    return [NOON]


@pytest.fixture
def pool(server, now, monkeypatch):
    """Makes a pool whose tokens have the test's clock."""

    def make(max_age_s):
        tokens = IamTokens(access(server.url), lambda: now[0])
        source = redis_source.iam_source(access(server.url), tokens, 3.0, max_age_s)
        monkeypatch.setattr("kiqbridge.store.redis_pool.open_source", lambda *_: source)
        return RedisPool(access(server.url)), tokens

    return make


@pytest.mark.parametrize(
    ("cache", "more"),
    [
        ("Jobs", ""),
        ("replicationgroup:jobs", ""),
        ("serverlesscache:Jobs", "&ResourceType=ServerlessCache"),
    ],
)
def test_a_token_has_the_form_that_botocore_gives_it(cache, more):
    user, token = IamTokens(access("rediss+cluster://host", cache)).get_credentials()

    keys = Credentials(*KEYS.values())
    emitter = HierarchicalEmitter()  # which the signer does not keep alive
    signer = RequestSigner(ServiceId("elasticache"), REGION, "elasticache", "v4", keys, emitter)
    request = {
        "method": "GET",
        "url": f"https://jobs/?Action=connect&User=app{more}",
        "body": {},
        "headers": {},
        "context": {},
    }
    wanted = signer.generate_presigned_url(
        request, operation_name="connect", expires_in=TOKEN_LIFE_S, region_name=REGION
    )
    ours, theirs = (parse_qs(urlsplit(url).query) for url in (f"https://{token}", wanted))
    assert user == "app"
    assert token.startswith("jobs/?")
    assert ours.keys() == theirs.keys()
    changing = {"X-Amz-Date", "X-Amz-Signature"}  # test_sigv4.py compares these under one clock
    assert {name: ours[name] for name in ours.keys() - changing} == {
        name: theirs[name] for name in theirs.keys() - changing
    }
    assert ours["X-Amz-Expires"] == ["900"]


def test_each_connection_logs_in_with_a_token_of_its_own_time(pool, cache, now, redis):
    made, tokens = pool(3600.0)
    cache(tokens.get_credentials()[1])
    assert made.call("ACL", "WHOAMI") == b"app"
    assert len({made.call("CLIENT", "ID") for _ in range(5)}) == 1, "it is young, and kept"

    now[0] += TOKEN_LIFE_S + 1
    assert made.call("PING") == b"PONG", "a connection that is open stays logged in"
    cache(tokens.get_credentials()[1])  # the former token is no longer good
    redis.client_kill_filter(user="app")

    assert made.call("ACL", "WHOAMI") == b"app"


def test_a_connection_is_replaced_before_elasticache_ends_it(pool, cache, now):
    made, tokens = pool(0.0)  # each is too old for a second call
    cache(tokens.get_credentials()[1])
    first = made.call("CLIENT", "ID")
    now[0] += 11 * 3600
    cache(tokens.get_credentials()[1])

    replies = made.run(("MULTI",), ("CLIENT", "ID"), ("INCR", "counter"), ("EXEC",))

    ids = replies[-1][0]
    assert ids > first
    assert replies[-1][1] == 1, "a transaction stays on one connection"


def test_a_blocked_call_ends_before_its_connection_is_replaced(pool, cache, redis):
    made, tokens = pool(0.0)
    cache(tokens.get_credentials()[1])
    connection = made.connection()
    redis.lpush("queue", "job")

    assert connection.call("BRPOP", "queue", 1) == [b"queue", b"job"]
    redis.lpush("queue", "other")
    assert connection.call("BRPOP", "queue", 1) == [b"queue", b"other"]


def test_a_reader_that_is_cut_off_logs_in_anew(pool, cache, now, redis):
    made, tokens = pool(3600.0)
    cache(tokens.get_credentials()[1])
    tracking = TrackingConnection(made.raw_connection)
    tracking.read(("GET", "a"))
    now[0] += 12 * 3600
    cache(tokens.get_credentials()[1])
    redis.client_kill_filter(user="app")

    def is_cut_off():
        try:
            tracking.read(("GET", "a"))
        except KiqbridgeError:
            return True
        return False

    wait_until(is_cut_off, what="the end of the connection")

    assert tracking.read(("GET", "a")) == [None]
    tracking.close()


def test_a_process_without_keys_is_not_let_in_and_says_why(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    without = RedisAccess(
        url=server.url, iam_user="app", iam_cache="jobs", aws={"AWS_REGION": REGION}
    )
    pool = RedisPool(without)

    for _ in range(2):  # nor by the connection that is open from the first time
        with pytest.raises(RedisMisconfigured, match=r"pip install 'kiqbridge\[aws\]'"):
            pool.call("PING")


def test_a_connection_on_which_logging_in_broke_off_is_not_used(pool, cache, monkeypatch):
    made, tokens = pool(3600.0)
    cache(tokens.get_credentials()[1])
    connection = made.connection()
    with monkeypatch.context() as patch:
        patch.setattr(tokens, "_keychain", None)  # an error that nobody expects
        with pytest.raises(AttributeError):
            connection.call("PING")

    assert connection.call("ACL", "WHOAMI") == b"app", "not default, as who did not log in"


def test_a_client_of_the_settings_logs_in(server, cache, monkeypatch):
    monkeypatch.setattr(IamTokens.__init__, "__defaults__", (lambda: NOON,))
    cache(IamTokens(access(server.url), lambda: NOON).get_credentials()[1])

    Client(access(server.url)).push({"class": "EchoJob", "args": []})
