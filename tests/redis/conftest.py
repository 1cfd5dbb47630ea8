"""What tests of several modules need on a real server."""

from collections.abc import Iterator

import pytest
import redis as redis_py
from support.engine import EngineProcess
from support.proxy import InterceptingRedis
from support.servers import ServerProcess as RedisServer
from support.servers import embedded_server

from kiqbridge.api import Operator, open_operator
from kiqbridge.client.server import Server
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool


@pytest.fixture
def process(redis_url: str) -> Iterator[EngineProcess]:
    with EngineProcess(redis_url) as process:
        yield process


@pytest.fixture
def pool(redis_url: str) -> Iterator[RedisPool]:
    pool = RedisPool(redis_url)
    yield pool
    pool.close_all()


@pytest.fixture
def connection(redis_url: str) -> Iterator[RedisConnection]:
    connection = RedisPool(redis_url).connection()
    yield connection
    connection.close()


@pytest.fixture
def operator(redis_url: str) -> Iterator[Operator]:
    operator = open_operator(redis_url, by="ann", via="web")
    yield operator
    operator.client.close()


@pytest.fixture
def trips(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commands each round trip of the operator had."""
    made: list[int] = []
    for name, run in (("run", operator.pool.run), ("call", operator.pool.call)):
        counted = lambda *words, run=run: made.append(len(words)) or run(*words)  # noqa: E731
        monkeypatch.setattr(operator.pool, name, counted)
    return made


@pytest.fixture
def setup() -> Server:
    """What a worker runs with."""
    return Server()


@pytest.fixture
def proxy(server: RedisServer, redis: redis_py.Redis) -> Iterator[InterceptingRedis]:
    """Between clients and the server, which knows no script any more."""
    redis.script_flush()
    with InterceptingRedis(server.port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def good() -> Iterator[RedisServer]:
    """A server as the doctor wants it."""
    with embedded_server(appendonly="yes") as server:
        yield server
