"""A task of Celery's in the process pool, whose child is killed at its time limit."""

import pytest

from kiqbridge.client.registry import default_registry
from kiqbridge.compat.celery import Celery

pytestmark = pytest.mark.usefixtures("own_tasks")


def test_a_task_names_its_pool_and_need_not_be_warned_of_its_limit(caplog):
    Celery("shop").task(name="t", time_limit=5, pool="process")(lambda: None)

    handling = default_registry.require("t").handling
    assert (handling.pool, handling.timeout_s, caplog.messages) == ("process", 5, [])
