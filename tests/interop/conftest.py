"""One database per module, whose tests share workers: each test has jids and queues of its own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from support.evidence import RUBY, Evidence
from support.ruby import RubySidekiq
from support.servers import ServerProcess
from support.workers import WorkerProcess

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def server(session_server) -> ServerProcess:
    """Flushed when the module begins, not per test: workers run on it all the time."""
    session_server.flush()
    return session_server


@pytest.fixture(scope="module")
def evidence(tmp_path_factory) -> Evidence:
    """Where this module's jobs testify."""
    return Evidence(tmp_path_factory.mktemp("evidence"))


@pytest.fixture(scope="module")
def python_worker(
    server, evidence, tmp_path_factory
) -> Callable[..., AbstractContextManager[WorkerProcess]]:
    """`with python_worker(JOBS, "-q", "mail") as worker`: ours, ready, performing that Python text.

    It beats five times a second, so that Ruby sees soon what it does and its signals act soon.
    """

    @contextmanager
    def start(jobs: str, *flags: str, **env: str) -> Iterator[WorkerProcess]:
        file = tmp_path_factory.mktemp("jobs") / "interop_jobs.py"
        file.write_text(jobs, encoding="utf-8")
        with WorkerProcess(
            "-r",
            str(file),
            *flags,
            redis_url=server.url,
            env={"KIQBRIDGE_BEAT_S": "0.2", **evidence.env, **env},
            python_path=[TESTS],
        ) as worker:
            worker.wait_ready()
            yield worker
            # In order, so that the next worker leads the polling at once.
            if worker.is_running:
                assert worker.stop() == 0

    return start


@pytest.fixture(scope="module")
def ruby_worker(server, evidence) -> Callable[..., AbstractContextManager[RubySidekiq]]:
    """`with ruby_worker(JOBS, queues=["rails"]) as sidekiq`: Ruby's real worker process, ready."""

    @contextmanager
    def start(jobs: str, **options: object) -> Iterator[RubySidekiq]:
        with RubySidekiq(RUBY + jobs, server.url, env=evidence.env, **options) as sidekiq:
            sidekiq.wait_ready()
            yield sidekiq

    return start
