"""An address that is read at run time: kept, read again when refused, and never more often than it may."""

import logging
import os
from dataclasses import dataclass, field
from functools import partial

import pytest
from support.proxy import Answer, InterceptingRedis
from support.servers import debian_server, find_free_port
from support.waiting import at_once, wait_until

from kiqbridge import Client
from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.errors import RedisMisconfigured, RedisUnavailable
from kiqbridge.store import redis_source
from kiqbridge.store.redis_address import connection_factory
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.redis_source import AFTER_OUTAGE_S, AFTER_REFUSAL_S, StoredSource
from kiqbridge.store.tracking_connection import TrackingConnection

JOB = {"class": "EchoJob", "args": [1]}
SECRET = "secretsmanager.GetSecretValue"


@pytest.fixture
def guarded(redis, server):
    """Sets the password of the user `app`, whose connections end."""

    def set_password(password):
        redis.execute_command(
            "ACL", "SETUSER", "app", "reset", "on", f">{password}", "~*", "&*", "+@all"
        )
        redis.client_kill_filter(user="app")
        return server.url.replace("redis://", f"redis://app:{password}@")

    yield set_password
    redis.execute_command("ACL", "DELUSER", "app")


def of_secret(services, text, url=""):
    arn = services.secret(text)
    access = RedisAccess(url=url, url_is_default=not url, secret_arn=arn, aws=services.aws)
    return arn, access


class TestSecret:
    def test_it_is_read_at_the_first_connection_and_kept(self, services, guarded):
        _, access = of_secret(services, guarded("one"))
        pool = RedisPool(access)
        assert services.operations == []
        assert pool.address.startswith("the address in the secret arn:")

        connections = [pool.connection() for _ in range(3)]

        assert [each.call("PING") for each in connections] == [b"PONG"] * 3
        assert services.operations == [SECRET]
        assert "redis://app:***@" in pool.address

    def test_a_password_alone_completes_the_address(self, services, guarded, server):
        guarded("s3/cr@et")
        url = server.url.replace("redis://", "redis://app@")
        _, access = of_secret(services, '{"password": "s3/cr@et"}', url)

        assert RedisPool(access).call("ACL", "WHOAMI") == b"app"

    def test_a_parameter_is_decrypted(self, services, guarded):
        services.client("ssm").put_parameter(
            Name="/redis/url", Value=guarded("one"), Type="SecureString"
        )
        access = RedisAccess(url="", ssm_parameter="/redis/url", aws=services.aws)

        assert RedisPool(access).call("ACL", "WHOAMI") == b"app"
        assert services.operations == ["AmazonSSM.GetParameter"]

    def test_a_rotated_password_is_read_once_for_all_connections(self, services, guarded, caplog):
        caplog.set_level(logging.DEBUG, "kiqbridge")
        arn, access = of_secret(services, guarded("one"))
        pool = RedisPool(access)
        connections = [pool.connection() for _ in range(6)]
        for each in connections:
            each.call("PING")

        services.rotate(arn, guarded("two"))
        answers = at_once(*(partial(each.call, "ACL", "WHOAMI") for each in connections))

        assert answers == [b"app"] * 6
        assert services.operations == [SECRET] * 2
        assert f"{arn} has changed: connections now go to redis://app:***@" in caplog.text
        assert not any(
            word in caplog.text
            for word in (":one@", ":two@", services.aws["AWS_SECRET_ACCESS_KEY"])
        )

    def test_a_push_that_must_not_be_repeated_survives_a_rotation(self, services, guarded, redis):
        arn, access = of_secret(services, guarded("one"))
        client = Client(access)
        client.push(JOB)
        services.rotate(arn, guarded("two"))
        wait_until(
            lambda: all(each["user"] != "app" for each in redis.client_list()),
            what="the end of the connection",
        )

        client.push(JOB)

        assert redis.llen("queue:default") == 2

    @pytest.mark.redis_server
    @pytest.mark.parametrize("repeatable", [True, False])
    @pytest.mark.parametrize(
        "commands",
        [
            [("INCR", "counter")],
            [("DEL", *"abcdefghijk"), ("INCR", "counter")],  # over 10 parts
            [("INCR", "counter"), ("SET", "large", "x" * 20_000)],
            [("SET", "large", "x" * 1_000_000), ("INCR", "counter")],  # it hangs up while we send
        ],
        ids=["short", "many parts", "large", "in pieces"],
    )
    def test_a_server_that_wants_a_password_since_now(self, services, commands, repeatable):
        """It refuses long commands by another word than NOAUTH, and ends the connection."""
        with debian_server() as server:
            arn, access = of_secret(services, server.url)
            pool = RedisPool(access)
            pool.call("CONFIG", "SET", "requirepass", "pw")
            services.rotate(arn, server.url.replace("redis://", "redis://:pw@"))
            pool.close()

            # The refusal comes as the answer to the command itself: nothing was sent to log in.
            assert len(pool.run(*commands, repeatable=repeatable)) == len(commands)
            assert pool.call("GET", "counter") == b"1"
            assert services.operations == [SECRET] * 2

    def test_an_open_connection_that_must_log_in_since_now(self, services, redis, server):
        """As behind a proxy: a connection that was let in without a password is asked for one."""
        with InterceptingRedis(server.port) as proxy:
            arn, access = of_secret(services, proxy.url)
            pool = RedisPool(access)
            pool.call("PING")
            services.rotate(arn, proxy.url.replace("redis://", "redis://default:any@"))
            redis.config_set("requirepass", "any")
            refused = []

            def decide(command):
                if command[0] == b"INCR" and not refused:
                    refused.append(command)
                    return Answer(b"-NOAUTH Authentication required.\r\n")
                return None

            proxy.decide = decide
            try:
                assert pool.run(("INCR", "counter"), repeatable=False) == [1]
            finally:
                redis.config_set("requirepass", "")

            assert len(refused) == 1
            assert services.operations == [SECRET] * 2

    def test_a_wrong_password_does_not_hammer_the_service(self, services, guarded):
        url = guarded("one")
        _, access = of_secret(services, url.replace(":one@", ":wrong@"))
        pool = RedisPool(access)

        for _ in range(5):
            with pytest.raises(RedisMisconfigured, match="the user or the password is wrong"):
                pool.call("PING")

        assert services.operations == [SECRET] * 2

    def test_a_reader_of_pushed_messages_notices_the_new_password(self, services, guarded):
        arn, access = of_secret(services, guarded("one"))
        pool = RedisPool(access)
        tracking = TrackingConnection(pool.raw_connection)
        tracking.read(("GET", "a"))
        services.rotate(arn, guarded("two"))
        tracking.close()

        assert tracking.read(("GET", "a")) == [None]
        tracking.close()

    def test_a_forked_child_reads_what_another_thread_was_reading(self, services, guarded):
        _, access = of_secret(services, guarded("one"))
        pool = RedisPool(access)
        pool._source._lock.acquire()  # as by a thread that the child does not have
        pool._forks = -1  # as in a child

        assert pool.call("PING") == b"PONG"


class TestRefusal:
    @pytest.mark.parametrize(
        ("status", "code", "kind", "words"),
        [
            (
                400,
                "AccessDeniedException",
                RedisMisconfigured,
                "was refused: AccessDeniedException",
            ),
            (400, "ThrottlingException", RedisUnavailable, "ThrottlingException, No; it is tried"),
            (500, "InternalServiceError", RedisUnavailable, "it is tried again"),
        ],
    )
    def test_the_service_refuses(self, services, status, code, kind, words):
        _, access = of_secret(services, "redis://host")
        services.refuse = lambda _operation: (status, code)

        with pytest.raises(RedisUnavailable, match=words) as refusal:
            RedisPool(access).call("PING")

        assert type(refusal.value) is kind

    def test_a_secret_that_is_not_there(self, services, caplog):
        caplog.set_level(logging.DEBUG, "kiqbridge")
        access = RedisAccess(url="", secret_arn="none", aws=services.aws)

        with pytest.raises(RedisMisconfigured, match=r"the secret none cannot be read: .*NotFound"):
            RedisPool(access).call("PING")

        assert services.operations == [SECRET]
        assert caplog.text == "", "nothing was known before that could be kept"

    def test_a_wrong_key(self, services):
        _, access = of_secret(services, "redis://host")
        aws = {**services.aws, "AWS_SECRET_ACCESS_KEY": "other"}
        wrong = RedisAccess(url="", secret_arn=access.secret_arn, aws=aws)

        with pytest.raises(RedisMisconfigured, match="InvalidSignatureException"):
            RedisPool(wrong).call("PING")

    @pytest.mark.parametrize("text", ["redis://:s3cret@host:port/0", '{"host": "h", "x": s3cret}'])
    def test_what_is_no_address_is_not_quoted(self, services, text):
        _, access = of_secret(services, text)

        with pytest.raises(RedisMisconfigured, match="cannot be used: it") as refusal:
            RedisPool(access).call("PING")

        error = refusal.value
        while error is not None:
            assert "s3cret" not in str(error)
            error = error.__cause__ or error.__context__

    def test_a_password_alone_needs_an_address(self, services):
        arn = services.secret("s3cret")
        default = RedisAccess(
            url="redis://localhost:6379/0",
            url_is_default=True,
            secret_arn=arn,
            aws=services.aws,
        )

        with pytest.raises(RedisMisconfigured, match="it holds no host; set REDIS_URL") as refusal:
            RedisPool(default).call("PING")

        assert "s3cret" not in str(refusal.value)

    def test_a_service_that_is_away_is_named_with_its_endpoint(self, services):
        url = f"http://127.0.0.1:{find_free_port()}"
        aws = {**services.aws, "AWS_ENDPOINT_URL_SECRETS_MANAGER": url}
        access = RedisAccess(url="", secret_arn="redis", aws=aws)

        with pytest.raises(
            RedisUnavailable, match="needs an endpoint for secretsmanager"
        ) as refusal:
            RedisPool(access).call("PING")

        assert not isinstance(refusal.value, RedisMisconfigured)
        assert os.strerror(111) in str(refusal.value)


@dataclass
class Stored:
    """An address that the test sets; `reads` counts."""

    url: str
    name: str = "the secret redis"
    reads: int = 0
    error: RedisUnavailable | None = None
    within: list[float] = field(default_factory=list)

    def read(self, timeout_s):
        self.reads += 1
        self.within.append(timeout_s)
        if self.error:
            raise self.error
        return self.url


class TestPauses:
    @pytest.fixture
    def stored(self):
        return Stored("redis://:one@host")

    @pytest.fixture
    def clock(self):
        return [0.0]

    @pytest.fixture
    def source(self, stored, clock):
        made = StoredSource(
            stored, lambda url: connection_factory(url, None, 3.0), lambda: clock[0]
        )
        made.factory()
        return made

    def test_after_a_refusal_it_is_read_at_once_and_then_now_and_then(self, source, stored, clock):
        error = redis_error("WRONGPASS invalid username-password pair or user is disabled.")

        assert [source.renew(1, error) for _ in range(3)] == [False] * 3
        assert stored.reads == 2
        stored.url = "redis://:two@host"
        clock[0] += AFTER_REFUSAL_S
        assert source.renew(1, error)
        assert (stored.reads, source.version) == (3, 2)
        assert source.factory().connection_kwargs["password"] == "two"

    def test_a_newer_version_needs_no_reading(self, source, stored):
        assert source.renew(0, redis_error("WRONGPASS"))
        assert stored.reads == 1

    def test_after_an_outage_it_is_read_seldom(self, source, stored, clock):
        away = ConnectionRefusedError()
        assert not source.renew(1, away)
        clock[0] += AFTER_OUTAGE_S - 1
        assert not source.renew(1, away)
        assert stored.reads == 2
        stored.url = "redis://:one@elsewhere"
        clock[0] += 1

        assert source.renew(1, away)
        assert source.address == "redis://:***@elsewhere"

    def test_what_was_known_is_kept_while_the_service_is_away(self, source, stored, caplog):
        stored.error = RedisUnavailable("it is away")

        assert not source.renew(1, redis_error("WRONGPASS"))

        assert source.factory().connection_kwargs["password"] == "one"
        assert "the address of Redis is kept as it is: it is away" in caplog.text

    def test_a_first_read_that_failed_is_not_repeated_by_each_thread(self, stored, clock):
        source = StoredSource(
            stored, lambda url: connection_factory(url, None, 3.0), lambda: clock[0]
        )
        stored.error = RedisUnavailable("it is away")
        for _ in range(3):
            with pytest.raises(Exception, match="it is away"):
                source.factory()
        assert stored.reads == 1

        stored.error = None
        clock[0] += redis_source.AFTER_FAILURE_S

        assert source.factory().connection_kwargs["password"] == "one"


def redis_error(text):
    import redis

    return redis.exceptions.ResponseError(text)
