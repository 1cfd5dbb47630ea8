"""A task of Celery's in the process pool, whose child is killed at its time limit."""

import pytest

from kiqbridge.client.default_client import own_default_client
from kiqbridge.client.registry import default_registry
from kiqbridge.compat.celery import Celery


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(default_registry, "_definitions", {})
    with own_default_client():
        yield


def test_a_task_names_its_pool_and_need_not_be_warned_of_its_limit(caplog):
    Celery("shop").task(name="t", time_limit=5, pool="process")(lambda: None)

    handling = default_registry.require("t").handling
    assert (handling.pool, handling.timeout_s, caplog.messages) == ("process", 5, [])
