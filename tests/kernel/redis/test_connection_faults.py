"""What is wrong with an address or a server is named with its remedy: real servers, with and without TLS."""

import ssl
from contextlib import ExitStack

import pytest
from support.aws_services import aws_services
from support.certificates import make_certificate
from support.proxy import Answer, InterceptingRedis
from support.servers import debian_server, embedded_server, find_free_port, one_node_cluster

from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.errors import ConfigError, RedisMisconfigured, RedisUnavailable
from kiqbridge.store import connection_faults
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.server_check import check_server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls(certificate):
    """Starts a server with a TLS port beside its plain one, and returns that port."""
    with ExitStack() as stack:
        ports = {}

        def tls(clients="no"):
            if clients not in ports:
                ports[clients] = str(find_free_port())
                settings = {
                    "tls_port": ports[clients],
                    "tls_cert_file": str(certificate / "cert.pem"),
                    "tls_key_file": str(certificate / "key.pem"),
                    "tls_ca_cert_file": str(certificate / "cert.pem"),
                    "tls_auth_clients": clients,
                }
                stack.enter_context(debian_server(**settings))
            return ports[clients]

        yield tls


def refusal_of(url):
    """What a failed call says, and what a look at the port does."""
    pool = RedisPool(url)
    with pytest.raises(RedisUnavailable) as failed:
        pool.call("PING")
    if isinstance(failed.value, RedisMisconfigured):
        return str(failed.value)
    return str(pool.probe(failed.value))


@pytest.mark.redis_server
@pytest.mark.openssl
class TestTls:
    def test_the_authority_of_the_servers_certificate_is_named_in_the_address(
        self, tls, certificate
    ):
        url = f"rediss://127.0.0.1:{tls()}/0?ssl_ca_certs={certificate}/cert.pem"

        assert RedisPool(url).call("PING") == b"PONG"

    def test_the_authority_and_a_user_with_the_password_in_a_secret(self, tls, certificate):
        url = f"rediss://127.0.0.1:{tls()}/0?ssl_ca_certs={certificate}/cert.pem"
        RedisPool(url).call("ACL", "SETUSER", "app", "reset", "on", ">s3/cr@et", "+@all")

        with aws_services() as services:
            arn = services.secret('{"username": "app", "password": "s3/cr@et"}')
            pool = RedisPool(RedisAccess(url=url, secret_arn=arn, aws=services.aws))

            assert pool.call("ACL", "WHOAMI") == b"app"

    def test_a_server_that_wants_a_certificate_gets_it_from_the_address(self, tls, certificate):
        files = f"ssl_certfile={certificate}/cert.pem&ssl_keyfile={certificate}/key.pem"
        url = f"rediss://127.0.0.1:{tls('yes')}/0?ssl_ca_certs={certificate}/cert.pem&{files}"

        assert RedisPool(url).call("PING") == b"PONG"

    def test_a_plain_address_of_a_tls_port(self, tls):
        assert refusal_of(f"redis://127.0.0.1:{tls()}/0") == (
            "the server speaks TLS at this port, and the address does not ask for it; write rediss:// "
            "instead of redis://"
        )

    def test_a_tls_address_of_a_plain_port(self, server):
        assert "does not speak TLS at this port" in refusal_of(
            f"rediss://127.0.0.1:{server.port}/0"
        )

    def test_a_certificate_of_an_unknown_authority(self, tls):
        text = refusal_of(f"rediss://127.0.0.1:{tls()}/0")

        assert "certificate is not trusted (certificate verify failed: self-signed" in text
        assert "?ssl_ca_certs=/path/ca.pem" in text

    def test_a_certificate_for_another_host(self, tls, certificate):
        text = refusal_of(f"rediss://localhost:{tls()}/0?ssl_ca_certs={certificate}/cert.pem")

        assert "certificate is for another host name" in text
        assert "ssl_check_hostname=false" in text

    def test_a_certificate_file_that_is_not_there(self, tls):
        text = refusal_of(f"rediss://127.0.0.1:{tls()}/0?ssl_ca_certs=/nowhere.pem")

        assert "a certificate file cannot be read" in text

    def test_a_server_that_wants_a_certificate(self, tls, certificate):
        text = refusal_of(f"rediss://127.0.0.1:{tls('yes')}/0?ssl_ca_certs={certificate}/cert.pem")

        assert "wants a certificate of ours" in text
        assert "ssl_certfile=" in text


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("redis://127.0.0.1:{}/99", "no database of the number at the end of the address"),
        ("redis://:s3cret@127.0.0.1:{}/0", "the address has a password, and the server wants none"),
        ("redis://who:s3cret@127.0.0.1:{}/0", "the user or the password is wrong"),
    ],
)
def test_what_is_wrong_with_an_address_is_said_without_its_password(server, address, words):
    text = refusal_of(address.format(server.port))

    assert words in text
    assert "; " in text
    assert "s3cret" not in text


def test_a_password_that_is_missing_or_wrong():
    with embedded_server() as server:
        RedisPool(server.url).call("CONFIG", "SET", "requirepass", "pw")
        assert "wants a password, and the address has none" in refusal_of(server.url)
        wrong = server.url.replace("redis://", "redis://:no@")
        assert "the user or the password is wrong" in refusal_of(wrong)


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:1/0",
        "rediss://127.0.0.1:1/0",
        "redis://no-such-host.invalid/0",
        "unix:///nowhere/redis.sock",
    ],
)
def test_what_may_become_right_is_no_fault(url):
    pool = RedisPool(url)

    with pytest.raises(RedisUnavailable) as failed:
        pool.call("PING")

    assert not isinstance(failed.value, RedisMisconfigured)
    assert pool.probe(failed.value) is None


@pytest.mark.parametrize("error", [ssl.SSLEOFError, ssl.SSLZeroReturnError])
def test_a_server_that_hangs_up_does_not_speak_tls(server, monkeypatch, error):
    def hang_up(_connection):
        raise error  # which of both depends on OpenSSL

    monkeypatch.setattr(connection_faults, "_wrapped", hang_up)

    assert RedisPool(server.url).probe(RedisUnavailable("it hung up")) is None


@pytest.mark.slow
def test_a_server_that_is_frozen_is_no_fault():
    with embedded_server() as server:
        server.pause()
        for url in (server.url, server.url.replace("redis://", "rediss://")):
            assert RedisPool(url).probe(RedisUnavailable("silent")) is None
        server.resume()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://h/0?ssl_ca_certs=/x", "ssl_ca_certs is not an option of such an address"),
        ("redis://:s3cret@h/0?bogus=1", "bogus is not an option of such an address"),
        ("rediss://h/0?ssl_cert_reqs=maybe", "Invalid SSL Certificate Requirements Flag: maybe"),
    ],
)
def test_an_option_that_does_not_exist_is_refused(url, words):
    with pytest.raises(ConfigError, match=words) as failed:
        RedisPool(url)

    assert "REDIS_URL" in str(failed.value)
    assert "s3cret" not in str(failed.value)


def test_a_socket_file_is_an_address(tmp_path):
    with embedded_server(unixsocket=str(tmp_path / "s")):
        assert RedisPool(f"unix://{tmp_path}/s").call("PING") == b"PONG"


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ("redis_version:6.2.14", "is redis 6.2.14, which is too old"),
        ("redis_version:7.2.4\r\nvalkey_version:7.1.0", "is valkey 7.1.0, which is too old"),
        ("redis_version:7.0.0", None),
        ("redis_version:7.2.4\r\nvalkey_version:8.0.1", None),
        ("nothing:said", None),
    ],
)
def test_a_server_that_is_too_old_is_refused(server, info, words):
    text = f"# Server\r\n{info}\r\n".encode()
    with InterceptingRedis(server.port) as proxy:
        proxy.decide = lambda command: (
            Answer(b"$%d\r\n%b\r\n" % (len(text), text))
            if command == [b"INFO", b"server"]
            else None
        )
        pool = RedisPool(proxy.url)

        if words is None:
            check_server(pool.run, "", pool.address)
        else:
            with pytest.raises(ConfigError, match=words) as failed:
                check_server(pool.run, "", pool.address)
            assert "upgrade to Redis 7.0, Valkey 7.2, or newer" in str(failed.value)


def test_a_server_in_cluster_mode_needs_a_hash_tag():
    with one_node_cluster() as server:
        pool = RedisPool(server.url)
        check_server(pool.run, "{jobs}:", pool.address)

        with pytest.raises(ConfigError, match="set KIQBRIDGE_NAMESPACE to a name in braces"):
            check_server(pool.run, "jobs:", pool.address)


def test_a_server_in_cluster_mode_is_refused_while_ruby_processes_use_the_namespace():
    with one_node_cluster() as server:
        pool = RedisPool(server.url)
        ours, ruby, gone = "one:1:aaa", "web:7:bbb", "web:8:ccc"
        pool.run(
            ("SADD", "{jobs}:processes", ours, ruby, gone),
            ("HSET", f"{{jobs}}:{ours}", "info", '{"version":"kiqbridge"}'),
            ("HSET", f"{{jobs}}:{ruby}", "info", '{"version":"8.0.1","queues":["default"]}'),
        )

        with pytest.raises(ConfigError, match="cluster mode, and Ruby processes use it") as failed:
            check_server(pool.run, "{jobs}:", pool.address)
        assert "'{jobs}:': web:7:bbb. Ruby's Sidekiq does not follow" in str(failed.value)

        pool.call("DEL", f"{{jobs}}:{ruby}")
        check_server(pool.run, "{jobs}:", pool.address)
