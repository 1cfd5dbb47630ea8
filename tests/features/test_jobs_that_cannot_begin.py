"""What the worker cannot start for a job, a thread or a process, is not charged to it: it goes back, and runs later."""

import asyncio
import errno
import os

import pytest
from support.failing_starts import FailingStarts
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge import job
from kiqbridge.client import bridge
from kiqbridge.client.middleware import Chain
from kiqbridge.client.server import Server
from kiqbridge.engine.host.status import faults_of
from kiqbridge.engine.perform import event_loop, processor
from kiqbridge.features.shell_command.shell_job import declare_shell_command
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.threads import NoThread


@pytest.fixture(autouse=True)
def jobs():
    with own_declarations():
        yield


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(event_loop, "RETRY_S", 0.05)
    monkeypatch.setattr(processor, "RETRY_S", 0.05)
    monkeypatch.setattr(bridge, "_background", bridge._Background())


def around(_job, _payload, _queue, call_next):
    return call_next()


async def around_async(_job, _payload, _queue, call_next):
    return await call_next()


def plain_around_async(server, _monkeypatch, starts):
    server.middleware.add(around)
    job(name="Refused")(_nothing_async)
    starts.refused = {"kiqbridge-default-bridge"}
    return starts.tried, starts.refused.clear, "its middleware needs a thread"


def async_around_plain(server, _monkeypatch, starts):
    """Its middleware calls another chain, as that of a push, on whose loop it cannot wait."""

    async def calling(_job, _payload, _queue, call_next):
        Chain(_another).invoke((), lambda: None)
        return await call_next()

    server.middleware.add(calling)
    job(name="Refused")(_nothing)
    starts.refused = {"kiqbridge-middleware"}
    return starts.tried, starts.refused.clear, "its middleware needs a thread"


def shell_command(_server, monkeypatch, _starts):
    tried, start = [], asyncio.create_subprocess_exec
    is_full = [True]

    async def refused(*args, **more):
        if is_full:
            tried.append(args)
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return await start(*args, **more)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refused)
    declare_shell_command(["/bin/true"], environment={}, time_limit_s=60)
    return tried, is_full.clear, "/bin/true could not be started: [Errno 11] Resource temporarily"


async def _another(call_next):
    return await call_next()


def _nothing(*_args): ...


async def _nothing_async(*_args): ...


@pytest.mark.parametrize("make", [plain_around_async, async_around_plain, shell_command])
def test_it_goes_back_uncharged_and_the_worker_is_not_ready_until_it_runs(  # noqa: PLR0917 - fixtures
    make, monkeypatch, client, redis, redis_url, caplog
):
    server = Server()
    tried, make_room, reason = make(server, monkeypatch, FailingStarts(monkeypatch))
    name = "ShellCommand" if make is shell_command else "Refused"
    with launched(redis_url, server) as launcher:

        def ready():
            return [*faults_of(launcher.health.status(), "ready", lease_now())]

        wait_until(lambda: not ready())
        client.push({"class": name, "args": ["/bin/true"], "retry": False})
        wait_until(lambda: len(tried) > 3)
        assert any(reason in each for each in ready())

        make_room()

        wait_until(lambda: redis.get("stat:processed") == b"1")
        wait_until(lambda: not launcher.parts.running_jobs())
    assert redis.get("stat:failed") in {None, b"0"}
    assert (redis.zcard("retry"), redis.zcard("dead"), redis.llen("queue:default")) == (0, 0, 0)
    assert caplog.text.count("jobs cannot begin here") == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_thread_that_is_missing_once_it_has_begun_is_a_failure_of_the_job(
    is_async, client, redis, redis_url
):
    """As when it pushes, and the middleware of pushes needs a thread: its own code has run."""

    def fail(*_args):
        raise NoThread("none left")

    async def fail_async(*_args):
        fail()

    server = Server()
    server.middleware.add(around if is_async else around_async)
    job(name="Refused")(fail_async if is_async else fail)
    with launched(redis_url, server):
        client.push({"class": "Refused", "args": []})
        wait_until(lambda: redis.zcard("retry") == 1)
        wait_until(lambda: redis.get("stat:failed") == b"1")
