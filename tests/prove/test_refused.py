"""A server that refuses a command for good: what stands still is logged and not ready, and nothing is lost.

Full: each command that a worker needs, one after the other.
"""

import asyncio
import itertools
import json
import random
import re
import time
from pathlib import Path

import pytest
import redis as redis_py
from support.jobs import own_declarations
from support.launched import launched
from support.proving import sized
from support.waiting import wait_until

from kiqbridge import Client, IterableJob, job
from kiqbridge.api import fetch_verdict, open_operator
from kiqbridge.engine import chores, poller
from kiqbridge.engine.host.status import faults_of
from kiqbridge.engine.inflight import incarnations
from kiqbridge.engine.launcher import Launcher
from kiqbridge.engine.parts import EngineParts
from kiqbridge.flow import Batch, call
from kiqbridge.runtime.clock import lease_now
from kiqbridge.store.rights import needed
from kiqbridge.wire.keys import Keys

USER = "limited"
OFTEN_S = 0.2
AGAIN_S = 3.0
SECURITY = Path(__file__).parents[2] / "docs" / "reference" / "security.md"


class Working:
    """A worker whose rights a test takes away and gives back, and what it is given to do."""

    def __init__(
        self, owner: redis_py.Redis, client: Client, launcher: Launcher, ran: list[str], plain
    ) -> None:
        self._plain = plain
        self.launcher = launcher
        self.ran = ran
        self._owner = owner
        self._client = client
        self._rounds = itertools.count(1)

    def faults(self) -> list[str]:
        """Why it is not ready, as `kiqbridge health` says."""
        return list(faults_of(self.launcher.health.status(), "ready", lease_now()))

    def until_it_fails(self, name: str, command: str, expected: set[str]) -> None:
        """Wait until it is not ready because of that, and give it more to do meanwhile."""

        def fails():
            nonlocal again_at
            if time.monotonic() > again_at:
                again_at = time.monotonic() + AGAIN_S
                expected.update(self.give_work())
            return any(text.startswith(name) and " fails: " in text for text in self.faults())

        again_at = time.monotonic() + AGAIN_S
        wait_until(fails, what=lambda: f"{name} without {command}: {self.faults()}")

    def rules(self, *rules: str) -> None:
        self._owner.execute_command("ACL", "SETUSER", USER, *rules)

    def give_work(self) -> set[str]:
        """One of everything; the names that its jobs will note."""
        mark, expected = f"round {next(self._rounds)}", set()

        def item(job_class, what, **more):
            expected.add(f"{mark} {what}")
            return {"class": job_class, "args": [f"{mark} {what}"], **more}

        push = self._client.push
        push(item("Plain", "plain"))
        push(item("Later", "on the loop"))
        push(item("Steps", "in steps"))
        for number in range(4):
            push(item("Slow", f"slow {number}"))
        push({"class": "Dies", "args": [mark], "retry": 0})
        push(item("Plain", "scheduled", at=time.time() + 0.1))
        retried = {**item("Plain", "retried"), "jid": mark, "queue": "default", "retry": True}
        self._owner.zadd("retry", {json.dumps(retried): time.time() - 1})
        self._client.push({"class": "Fails", "args": [mark]})
        with Batch(
            on_success=call(self._plain, f"{mark} of a batch's end"), client=self._client
        ) as batch:
            batch.push(item("Plain", "of a batch"))
        expected.add(f"{mark} of a batch's end")
        self._client.pause_class("Paused", for_s=0.3)
        return expected


@pytest.fixture
def working(server, redis, client, monkeypatch):
    """A worker that has begun to work, with all that is seldom done each 0.2 s."""
    ran: list[str] = []

    @job(name="Plain")
    def plain(name):
        ran.append(name)

    @job(name="Slow")
    def slow(name):
        time.sleep(0.05)
        ran.append(name)

    @job(name="Later")
    async def later(name):
        await asyncio.sleep(0)
        ran.append(name)

    @job(name="Dies", retry=0)
    def dies(name):
        raise ValueError(name)

    @job(name="Fails", retry_in=lambda *_: 86_400)
    def fails(name):
        raise ValueError(name)

    class Steps(IterableJob):
        def build_enumerator(self, name, *, cursor):
            for number in range(cursor or 0, 2):
                yield number, number + 1

        def each_iteration(self, number, name):
            if number:
                ran.append(name)

    for module, name in (
        (poller, "RETRY_S"),
        (chores, "FORGET_S"),
        *((incarnations, name) for name in ("FIRST_AFTER_S", "PAUSE_S")),
    ):
        monkeypatch.setattr(module, name, OFTEN_S)
    make = EngineParts._make_chores
    monkeypatch.setattr(
        EngineParts,
        "_make_chores",
        lambda self: [(each._replace(every_s=OFTEN_S), call) for each, call in make(self)],
    )
    redis.execute_command("ACL", "SETUSER", USER, "reset", "on", ">pw", "~*", "&*", "+@all")
    url = server.url.replace("redis://", f"redis://{USER}:pw@")
    try:
        with launched(url, concurrency="3", metrics="8") as launcher:
            yield Working(redis, client, launcher, ran, plain)
    finally:
        redis.execute_command("ACL", "DELUSER", USER)


@pytest.fixture(autouse=True)
def declarations():
    with own_declarations():
        yield


ROWS = re.findall(
    r"^\| (`[^|]*) \| ([^|]*) \|$",
    SECURITY.read_text("utf-8").partition("| without |")[2].partition("\n\n")[0],
    re.MULTILINE,
)
"""Of the table in the document: commands, and what fails without them."""

WITHOUT = {
    command: [] if fails == "nothing at once" else fails.split("; ")
    for commands, fails in ROWS
    for command in re.findall(r"`([^`]+)`", commands)
}


def test_the_table_of_the_document_has_each_command_that_a_worker_needs():
    needed_ones = {words[0] for words in needed("worker", Keys())} | {"multi", "exec"}

    assert WITHOUT.keys() == needed_ones
    assert sum(len(re.findall("`[^`]+`", commands)) for commands, _ in ROWS) == len(WITHOUT)


def test_commands_refused_in_turn_stop_what_the_document_says_and_lose_nothing(working, tell):
    refused = sized(full=list(WITHOUT), sample=random.sample(list(WITHOUT), 8))
    for command in refused:
        fails = WITHOUT[command]
        working.rules(f"-{command}")
        expected = working.give_work()
        if not fails:
            wait_until(lambda: expected <= set(working.ran), what=f"all jobs without {command}")  # noqa: B023
        for name in fails:
            working.until_it_fails(name, command, expected)
        working.rules(f"+{command}")

        wait_until(lambda: not working.faults(), what=lambda: f"{command}: {working.faults()}")  # noqa: B023
        wait_until(
            lambda: expected <= set(working.ran),  # noqa: B023
            what=lambda: f"without {command}: {expected - set(working.ran)}",  # noqa: B023
        )
    tell(f"rights: no job lost without {', '.join(refused)}")


def test_page_and_doctor_of_another_machine_name_it(working, redis_url):
    operator = open_operator(redis_url, by="test")
    working.rules("-lpush")
    working.give_work()

    def facts():
        return [fact.what for fact in fetch_verdict(operator).facts if fact.kind == "not-ready"]

    wait_until(lambda: any("moving due jobs and retries fails" in what for what in facts()))
    working.rules("+lpush")
    wait_until(lambda: not facts())
