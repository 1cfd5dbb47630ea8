"""Schedules of Celery's tasks, as the guide writes what was in `beat_schedule`."""

import pytest

from kiqbridge.client.registry import default_registry
from kiqbridge.compat.celery import Celery

pytestmark = pytest.mark.usefixtures("own_tasks")


def test_a_schedule_is_declared_at_the_task_and_follows_its_route():
    app = Celery("shop")
    app.task(name="nightly", cron="30 4 * * *", timezone="Europe/Paris", args=[1])(lambda x: None)
    app.task(name="often", every="5m")(lambda: None)
    app.conf.task_routes = {"nightly": "low"}

    nightly, often = (default_registry.require(name).schedule for name in ("nightly", "often"))
    assert (nightly.expression, nightly.timezone) == ("30 4 * * *", "Europe/Paris")
    assert (nightly.jobs[0]["queue"], nightly.jobs[0]["args"]) == ("low", [1])
    assert often.expression == "rate(5 minutes)"
