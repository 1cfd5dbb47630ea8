"""Dynamic schedules with real workers: fired at their second, once, whoever leads the fleet."""

import json
import time
from collections import Counter

import pytest
from support.notes import Notes
from support.waiting import wait_until

from kiqbridge import Schedule

pytestmark = pytest.mark.slow

JOBS = """
from kiqbridge import job, server
from support.noting import note

@server.middleware.add
def note_tick(instance, payload, queue, call_next):
    note(payload["tick"]["schedule"], due=payload["tick"]["at"])
    call_next()

@job
def nop(): ...
"""


FLAGS = ("-c", "2")
ENV = {"KIQBRIDGE_SCHEDULE_HORIZON_S": "5"}


@pytest.fixture
def seen(tmp_path):
    """What the jobs note."""
    return Notes(tmp_path)


@pytest.fixture
def instants(seen):
    """When each job of a schedule that ran was due."""
    return lambda schedule: sorted(note["due"] for note in seen.all(schedule))


@pytest.fixture
def wait_for_each_second(instants):
    """Wait until each second up to the last one that ran has run: threads may note a later one first."""

    def wait(schedule):
        first, *_, last = instants(schedule)
        due = set(range(first, last + 1))
        wait_until(
            lambda: due <= set(instants(schedule)),
            what=lambda: f"{sorted(due - set(instants(schedule)))} of {schedule}",
        )

    return wait


def test_when_the_leader_is_killed_another_one_goes_on_and_nothing_is_missing(
    redis, start, instants, schedules, wait_for_each_second
):
    workers = [start(), start()]
    # Of what an absence beyond the horizon has left out, other policies than `all` enqueue the newest at most.
    schedules.save(Schedule("seconds", "nop", every=1, missed="all"))
    wait_until(lambda: len(instants("seconds")) >= 3, 60)

    pid = int(redis.get("kb:poller").split(b":")[-2])
    [leader] = [each for each in workers if each.pid == pid]
    leader.kill()
    killed_at = time.time()

    # A lead lasts 8 s, and what was placed ahead for 5 to 10 s: some seconds come late, none is left out.
    wait_until(lambda: max(instants("seconds")) > killed_at + 14, 90)
    wait_for_each_second("seconds")
    ledger = [json.loads(text) for text in redis.zrange("kb:ticks:seconds", 0, -1)]
    assert len({each["at"] for each in ledger}) == len(ledger)
    assert len({each["by"] for each in ledger}) == 2
    # What the killed process held is given back, and may run twice: it was enqueued once.
    twice = [at for at, count in Counter(instants("seconds")).items() if count > 1]
    assert len(twice) <= 2
