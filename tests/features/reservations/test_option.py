"""Declaring how long a job may run until it is taken away."""

import pytest
from support.jobs import own_declarations

from kiqbridge.client.job import job
from kiqbridge.client.registry import default_registry
from kiqbridge.errors import ConfigError


@pytest.fixture(autouse=True)
def declarations():
    with own_declarations():
        yield


def test_a_longest_run_stays_off_the_wire():
    job(name="Limited", max_run_s=60, on_max_run="dead")(print_nothing)

    definition = default_registry.find("Limited")

    assert (definition.handling.max_run_s, definition.handling.on_max_run) == (60, "dead")
    assert set(definition.options) == {"retry", "queue"}


def test_without_the_feature_it_is_refused(monkeypatch):
    monkeypatch.setattr("kiqbridge.seams.named", lambda _name: None)

    with pytest.raises(ConfigError, match="max_run_s is of the feature reservations"):
        job(max_run_s=60)(print_nothing)


def print_nothing(): ...
