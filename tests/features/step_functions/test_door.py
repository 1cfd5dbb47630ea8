"""Events that bring a job for which a state machine waits."""

import pytest
from support.parsed_event import parse_event

from kiqbridge.aws.job_forms import JobRequest
from kiqbridge.errors import PayloadError
from kiqbridge.wire.guards import task_identity

NOW = 1_700_000_000.0
JOB = {"class": "Bill", "args": [7]}
TICK = {"schedule": "shop/Nightly", "at": "2026-01-01T00:00:00Z"}


def test_a_job_that_a_task_waits_for_goes_by_the_digest_of_its_token():
    waited_for = JOB | {"task_token": "AQC="}
    [job] = parse_event(waited_for, NOW).jobs
    assert job == JobRequest(item=waited_for, dedupe_key=task_identity("AQC="))
    assert "AQC" not in str(job.dedupe_key)
    assert task_identity("other") != task_identity("AQC=")
    # A key of its own and a tick come before the token, and the token before what brought the job.
    brought = {"detail-type": "t", "source": "shop", "id": "e", "detail": waited_for}
    for event, key in (
        (waited_for | {"dedupe_key": "k"}, "k"),
        (waited_for | {"tick": TICK}, None),
        (brought, job.dedupe_key),
    ):
        assert parse_event(event, NOW).jobs[0].dedupe_key == key


@pytest.mark.parametrize("value", [0, 1, 60, 1.5])
def test_a_token_with_heartbeats_passes(value):
    item = JOB | {"task_token": "AQC/+=", "task_heartbeat_s": value}
    assert parse_event(item, NOW).jobs[0].item == item


@pytest.mark.parametrize("value", ["5", True, None, -1, 0.5, [5]])
def test_other_heartbeats_are_refused(value):
    with pytest.raises(PayloadError, match=r"^task_heartbeat_s: "):
        parse_event(JOB | {"task_token": "t", "task_heartbeat_s": value}, NOW)


def test_without_the_feature_a_token_is_refused(monkeypatch):
    monkeypatch.setattr("kiqbridge.seams.missing", lambda: {"task_token": "step_functions"})
    with pytest.raises(
        PayloadError, match="feature step_functions, which is not installed"
    ) as raised:
        parse_event(JOB | {"task_token": "secret"}, NOW)

    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("value", ["", 5, None, ["secret"], "secret" * 400, "gehe\u00edm"])
def test_a_task_token_that_is_none_is_refused_without_being_shown(value):
    with pytest.raises(PayloadError, match=r"^task_token: it is not the token of a task") as raised:
        parse_event(JOB | {"task_token": value}, NOW)

    assert "secret" not in str(raised.value)
    assert "gehe" not in str(raised.value)
