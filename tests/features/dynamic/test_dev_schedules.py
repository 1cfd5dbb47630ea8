"""What `kiqbridge dev` shows of dynamic schedules."""

import re
import signal

import pytest
from support.dev_project import interrupt, lines_of, table, wait_for_job

from kiqbridge.features.dynamic.schedule import Schedule
from kiqbridge.features.dynamic.schedules import Schedules
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.wire import json_text

pytestmark = [pytest.mark.slow, pytest.mark.any_server]


def test_schedules_of_redis_are_shown_with_their_next_firing(project, redis, redis_url):
    definition = ScheduleDefinition(
        name="month end",
        expression="cron(30 23 L * ? *)",
        timezone="Asia/Tokyo",
        jobs=({"class": "NightlyReport", "queue": "low", "args": [1]},),
        start=None,
    )
    from_template = ScheduleDefinition(
        name="shop/Other",
        expression="rate(1 day)",
        jobs=({"class": "A", "args": []},),
        origin="template",
    )
    for each in (definition, from_template):
        redis.hset("kb:schedules", each.name, json_text.dumps(each.to_document()))

    run = project.dev(REDIS_URL=redis_url)
    wait_for_job(run)
    run.wait_for(lambda: table(run.output, "SCHEDULE"), 20, "the table of dynamic schedules")

    [row] = table(run.output, "SCHEDULE")
    assert row[:3] == ["month end", "NightlyReport → low", "cron(30 23 L * ? *) Asia/Tokyo"]
    assert re.fullmatch(r"\w{3} [\d-]+ 23:30 JST = 14:30 UTC", row[3])
    assert "by the real clock" not in run.output
    assert interrupt(run) == 0


def test_they_have_lines_of_the_ledger_too_and_say_that_they_are_paused(project, client, redis_url):
    Schedules(client).save(Schedule("often", "HealthPulse", every="2s"))
    Schedules(client).save(Schedule("held", "HealthPulse", every="2s"))
    Schedules(client).pause("held", reason="a test")

    run = project.dev("--at", "2019-03-01T02:00:00Z", REDIS_URL=redis_url)
    run.wait_for(lambda: len(lines_of(run, "ledger")) > 1, 30, "two lines of the ledger")

    assert [row[0] for row in table(run.output, "SCHEDULE") if row[3] == "paused"] == ["held"]
    assert all(re.search(r" often  .* by worker ", line) for line in lines_of(run, "ledger"))
    assert "placed " in lines_of(run, "ledger")[-1]
    run.signal(signal.SIGUSR1)
    run.wait_for(lambda: table(run.output, "INSTANT"), 20, "the rows of the ledger")
    assert all(" open" not in row[-1] for row in table(run.output, "INSTANT")[1:]), "none to come"
    assert interrupt(run) == 0
    assert [row[0] for row in table(run.output, "RULE")] == ["often"]
