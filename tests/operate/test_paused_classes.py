"""A class that is paused is shown wherever its jobs are."""

import json

import pytest

from kiqbridge.features.dynamic.schedule import Schedule
from kiqbridge.features.dynamic.schedules import Schedules

PAUSED = "The class Mail is paused for 0 s by ann: migration."


@pytest.fixture
def paused(run, redis, operator):
    item = {"class": "Mail", "args": [], "jid": "a" * 24, "queue": "default", "retry": True}
    redis.sadd("queues", "default")
    redis.lpush("queue:default", json.dumps(item))
    redis.zadd("retry", {json.dumps({**item, "jid": "b" * 24}): 1})
    redis.zadd("schedule", {json.dumps({**item, "class": "Bill"}): 1})
    Schedules(operator.client).save(Schedule("nightly", "Mail", cron="0 3 * * *"))
    operator.client.pause_class("Mail", reason="migration", by="ann")


@pytest.mark.parametrize(
    ("command", "is_shown"),
    [
        ("stats", True),
        ("queue show default", True),
        ("retries", True),
        ("scheduled", False),
        ("schedule list", True),
    ],
)
def test_it_is_said_where_its_jobs_are(run, paused, command, is_shown):
    code, out, _ = run(*command.split())

    assert code == 0
    assert (PAUSED.replace("0 s", "") in out.replace("0 s", "").replace("1 s", "")) == is_shown


def test_the_job_says_that_it_waits_for_that(run, paused):
    assert "paused" in run("job", "a" * 24)[1]
    assert json.loads(run("stats", "--json")[1])["paused_classes"] == ["Mail"]
