"""Threads of a worker that cannot start: one of its start ends it whole, without a later one it is not ready."""

import re
import threading

import pytest
from support.failing_starts import NO_ROOM, FailingStarts
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge import job
from kiqbridge.client.server import Server
from kiqbridge.config.merge import merge
from kiqbridge.engine.host.status import faults_of
from kiqbridge.engine.launcher import Launcher
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.role import LazyRole

PROCESSOR = "[0-9a-f]{6}$"
THREADS = (
    "status",
    "report",
    "repair",
    "stuck",
    "loop-default",
    "loop-watch-default",
    "lease",
    "children",
    "state",
    "limits",
    "heartbeat",
    "revoker",
    "poller",
    "chores",
    "pauses",
    "isolation",
    "reservations",
    "outbox",
    "task-reports",
    "bookkeeper",
    "done",
    PROCESSOR,
)
"""All with which a worker starts, as regular expressions; that of the log is there before."""

END_WITH_THE_PROCESS = {
    f"kiqbridge-{name}" for name in ("report", "repair", "stuck", "limits", "log", "children")
}


@pytest.fixture(autouse=True)
def jobs():
    """Jobs for which each of these threads is needed."""
    with own_declarations():

        @job(timeout_s=60, max_run_s=3600)
        def limited(): ...

        @job
        async def asynchronous(): ...

        yield


@pytest.fixture
def starts(monkeypatch):
    return FailingStarts(monkeypatch)


def ours():
    return {each for each in threading.enumerate() if each.name.startswith("kiqbridge-")}


def test_the_list_names_each_thread_with_which_a_worker_starts(redis_url):
    before = ours()
    with launched(redis_url):
        names = {each.name for each in ours() - before}
    patterns = {pattern: re.compile(f"kiqbridge-{pattern}") for pattern in (*THREADS, "log$")}
    assert [name for name in names if not any(each.match(name) for each in patterns.values())] == []
    found = {pattern for pattern, each in patterns.items() if any(map(each.match, names))}
    assert found | {"log$"} == set(patterns)


@pytest.mark.parametrize(
    ("thread", "room"), [*((name, 0) for name in THREADS), (PROCESSOR, 1)], ids=str
)
def test_a_start_for_which_there_is_no_thread_ends_and_leaves_nothing_behind(  # noqa: PLR0917 - fixtures
    starts, redis, redis_url, tmp_path, thread, room
):
    before = ours()
    starts.refused, starts.room = {f"kiqbridge-{thread}"}, room
    flags = {"redis_url": redis_url, "concurrency": "2", "beat_s": "0.05", "run_dir": str(tmp_path)}
    launcher = Launcher(merge(file={}, environ={}, flags=flags), server=Server())

    with pytest.raises(Exception, match=NO_ROOM):
        launcher.start(print)
    launcher.abandon_start()

    assert starts.tried
    assert redis.scard("kb:inflight") == 0
    assert redis.scard("processes") == 0
    assert [*tmp_path.iterdir()] == []
    wait_until(lambda: {each.name for each in ours() - before} <= END_WITH_THE_PROCESS)


def test_a_worker_is_not_ready_until_a_thread_that_is_needed_can_start(starts, redis_url):
    def faults(check):
        return [*faults_of(launcher.health.status(), check, lease_now())]

    starts.refused = {"kiqbridge-spare"}
    release = threading.Event()
    role = LazyRole("spare", release.wait, without="nothing is spared")
    with launched(redis_url) as launcher:
        wait_until(lambda: not faults("ready"))
        role.wake()
        said = "its thread spare cannot be started: nothing is spared"
        wait_until(lambda: faults("ready") == [said])
        assert not faults("live")

        starts.refused.clear()

        wait_until(lambda: not faults("ready"))
        assert role.runs
    release.set()


def test_a_thread_that_cannot_take_the_place_of_one_that_has_ended_is_tried_again(
    starts, redis_url, caplog
):
    with launched(redis_url) as launcher:
        starts.refused = {"kiqbridge-poller"}
        launcher.parts.poller.stop()
        launcher.parts.poller._stopping.clear()
        wait_until(lambda: len(starts.tried) > 1)
        assert f"thread poller cannot be started: {NO_ROOM}; it is tried again" in caplog.text

        starts.refused.clear()

        wait_until(lambda: launcher.parts.poller.alive)
        assert launcher.exit_status == 0
