"""What tests of several modules need, wherever they lie: each tier's tests, and those of the features.

What two tiers know by one name stands in their own `conftest.py`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_py

from kiqbridge.api import Operator, open_operator
from kiqbridge.client.server import Server
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from support.distribution import Distribution, make_once
from support.engine import EngineProcess
from support.enqueue_function import ENVIRONMENT, Context, load_app
from support.fleet import Fleet
from support.jobs import own_declarations
from support.proxy import InterceptingRedis
from support.runners import RunnerStand
from support.servers import ServerProcess as RedisServer
from support.servers import embedded_server
from support.stacks import installed_library, running_threads
from support.workers import started_workers

TESTS = Path(__file__).parents[1]


@pytest.fixture
def own_tasks() -> Iterator[None]:
    """Nothing is declared, not by Celery's module either, and no client is configured; as before afterwards."""
    from kiqbridge.compat.celery.app import _shared_tasks  # few tests need it

    _shared_tasks.clear()
    with own_declarations():
        yield


@pytest.fixture
def runner() -> Iterator[RunnerStand]:
    runner = RunnerStand()
    yield runner
    runner.close()


@pytest.fixture
def library(tmp_path, monkeypatch):
    """An installed package."""
    with installed_library(tmp_path, monkeypatch) as module:
        yield module


@pytest.fixture
def running():
    """`running(function, *args)` runs it on a thread; the state has its ident and what it raised."""
    with running_threads() as start:
        yield start


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


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Where the workers of the module run; its JOBS, if they are a text, lie there as `jobs.py`."""
    folder = tmp_path / "app"
    folder.mkdir()
    if isinstance(request.module.JOBS, str):
        (folder / "jobs.py").write_text(request.module.JOBS)
    return folder


@pytest.fixture
def env(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables of the workers of the module."""
    return getattr(request.module, "ENV", {})


@pytest.fixture
def start(request, redis_url, folder, tmp_path, env):
    """Starts workers on the JOBS of the module (a text, or a file), with its FLAGS and ENV."""
    jobs = request.module.JOBS
    env = {
        "MARKS": str(tmp_path),
        "KIQBRIDGE_LOG_FORMAT": "plain",
        "KIQBRIDGE_RUN_DIR": str(tmp_path / "run"),
        **env,
    }
    flags = getattr(request.module, "FLAGS", ())
    with started_workers(
        *flags,
        require="jobs.py" if isinstance(jobs, str) else str(jobs),
        redis_url=redis_url,
        cwd=folder,
        env=env,
        python_path=[TESTS],
    ) as start:
        yield start


@pytest.fixture
def project(tmp_path):
    """A folder with a project as it ships, for `kiqbridge dev`."""
    from support.dev_project import dev_project

    with dev_project(tmp_path) as project:
        yield project


@pytest.fixture
def browser(operator):
    """An administrator's."""
    from kiqbridge.web import create_app
    from support.pages import Browser

    return Browser(create_app(operator=operator, role="admin", environment="test"))


@pytest.fixture
def viewer(operator):
    """Of somebody who may look only."""
    from kiqbridge.web import create_app
    from support.pages import Browser

    return Browser(create_app(operator=operator, role="viewer", environment="test"))


@pytest.fixture
def system(redis):
    """Processes of Python and Ruby, with what they run and hold."""
    from support.running_system import System, fill_processes

    system = System(server=redis)
    fill_processes(system)
    return system


@pytest.fixture
def environment(monkeypatch, redis_url):
    for name, value in {**ENVIRONMENT, "REDIS_URL": redis_url}.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def load(environment):
    """Start a new warm environment, with the variables of the moment."""
    made = []

    def load():
        app = load_app()
        made.append(app.handler)
        return app

    yield load
    for handler in made:
        if handler._enqueuer is not None:  # else its socket stays open until it is collected
            pusher = handler._enqueuer.pusher
            for each in getattr(pusher, "pushers", {"": pusher}).values():
                each.client.close()  # of fleets all


@pytest.fixture
def app(load):
    return load()


@pytest.fixture
def invoke(app):
    return lambda event, context=None: app.lambda_handler(event, context or Context())


@pytest.fixture
def mapped(environment, load, tmp_path):
    """The function with mappings: `mapped(text)` makes an `invoke`."""

    def mapped(text):
        path = tmp_path / "mappings.yml"
        path.write_text(text, encoding="utf-8")
        environment.setenv("KIQBRIDGE_MAPPINGS", str(path))
        app = load()
        return lambda event: app.lambda_handler(event, Context())

    return mapped


@pytest.fixture
def fleet(redis_url, tmp_path):
    """Worker processes whose jobs mark what they do."""
    with Fleet(redis_url, tmp_path) as fleet:
        yield fleet


@pytest.fixture(scope="session")
def distribution(folder_of_run) -> Distribution:
    """One for all test processes of this run."""
    return make_once(folder_of_run / "dist")
