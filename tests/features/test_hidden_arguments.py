"""Values that an event brings are neither logged nor in messages, unless a setting allows it."""

import base64
import json
import re
import time

import pytest
from support.enqueue_function import EVENTS, Context, read_event

SECRET = "4111-1111-1111-1111"
JOB = {"class": "HealthPulse", "args": [SECRET]}
WRAPPER = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"


def message(body):
    [found] = read_event("sqs_records")["Records"]
    return {"Records": [found | {"body": body if isinstance(body, str) else json.dumps(body)}]}


def post(body):
    return read_event("http/url_iam", body=body if isinstance(body, str) else json.dumps(body))


BAD = {
    "text": SECRET,
    "list": [SECRET],
    "no job": {"order": SECRET},
    "no class": {"args": [SECRET]},
    "no list": {"class": "HealthPulse", "args": SECRET},
    "an object": {"class": "HealthPulse", "args": {"card": SECRET}},
    "surrogate": {"class": "HealthPulse", "args": [f"{SECRET}\ud800"]},
    "foreign": {"class": "HealthPulse", "args": [{SECRET}]},
    "tuple": {"class": "HealthPulse", "args": [(SECRET,)]},
    "nested": {"class": "HealthPulse", "args": [[{"card": {SECRET}}]]},
    "class": {"class": [SECRET], "args": []},
    "attribute": {"class": "HealthPulse", "args": [], "tags": {"card": SECRET}},
    "jobs": {"jobs": SECRET},
    "job in jobs": {"jobs": [SECRET]},
    "tick": {"class": "HealthPulse", "args": [], "tick": {"card": SECRET}},
    "kwargs": {"active_job": "Billing::Close", "args": [], "kwargs": SECRET},
    "active job": {"active_job": "Billing::Close", "args": SECRET},
    "active job's": {"active_job": "Billing::Close", "args": [{SECRET}]},
    "wrapped": {"class": WRAPPER, "wrapped": "HealthPulse", "args": [{"job_class": [SECRET]}]},
    "too large": {"class": "HealthPulse", "args": [SECRET * 100_000]},
    "sqs text": message(SECRET),
    "sqs number": {"Records": [message("")["Records"][0] | {"body": [SECRET]}]},
    "sqs no job": message({"order": SECRET}),
    "sqs no list": message({"class": "HealthPulse", "args": SECRET}),
    "bus text": read_event("bus_event", detail=SECRET),
    "bus no job": read_event("bus_event", detail={"order": SECRET}),
    "http text": post(SECRET),
    "http no job": post({"order": SECRET}),
    "http no list": post({"class": "HealthPulse", "args": SECRET}),
    "http form": post(f"card={SECRET}"),
    "http type": post(JOB) | {"headers": {"content-type": "text/plain"}},
}


def outcome(app, event):
    """What is answered or raised."""
    try:
        return repr(app.lambda_handler(event, Context()))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
        return f"{error!r} {error}"


@pytest.mark.parametrize("event", BAD.values(), ids=BAD)
def test_what_is_refused_shows_no_value(load, environment, capsys, event):
    environment.delenv("KIQBRIDGE_LOG_ARGUMENTS")
    environment.setenv("KIQBRIDGE_MAX_EVENT_BYTES", "100000")
    environment.setenv("KIQBRIDGE_MAX_PAYLOAD_BYTES", "100000")

    shown = outcome(load(), event) + capsys.readouterr().out

    assert '"outcome":"refused"' in shown
    assert SECRET[:9] not in shown


@pytest.mark.parametrize("name", ["no list", "sqs no list", "http no list"])
def test_a_setting_shows_them(app, capsys, name):
    shown = outcome(app, BAD[name]) + capsys.readouterr().out

    assert f"args: '{SECRET}' is not a list" in shown


def test_what_a_message_says_instead(load, environment):
    environment.delenv("KIQBRIDGE_LOG_ARGUMENTS")
    app = load()

    assert "args: (a text of 19) is not a list" in outcome(app, BAD["no list"])
    assert "args: (an object with the keys card) is not a list" in outcome(app, BAD["an object"])
    assert "args[0]: (of type set) of type set would not arrive" in outcome(app, BAD["foreign"])


def test_what_names_a_job_is_shown(load, environment):
    environment.delenv("KIQBRIDGE_LOG_ARGUMENTS")

    assert "class: 'Kernel' is not among" in outcome(load(), JOB | {"class": "Kernel"})


@pytest.mark.parametrize(
    "event",
    [JOB, message(JOB), post(JOB), read_event("bus_event", detail=JOB)],
    ids=["direct", "sqs", "http", "bus"],
)
def test_what_is_enqueued_or_fails_is_logged_without_arguments(load, environment, capsys, event):
    app = load()
    outcome(app, event)
    environment.setenv("REDIS_URL", "redis://127.0.0.1:1")
    outcome(load(), event)

    logged = capsys.readouterr().out
    assert '"outcome":"enqueued"' in logged and '"outcome":"failed"' in logged
    assert SECRET[:9] not in logged


SCHEDULED = {"class": "NightlyReport", "queue": "low", "args": [SECRET]}


def test_a_tick_is_logged_without_arguments(app, capsys):
    outcome(app, SCHEDULED | {"tick": {"schedule": "s", "at": int(time.time())}})
    outcome(app, SCHEDULED | {"tick": {"schedule": "s", "at": 1}})

    logged = capsys.readouterr().out
    assert '"outcome":"enqueued"' in logged and '"outcome":"refused"' in logged
    assert SECRET[:9] not in logged


def planted(value):
    """The same event with the text in the place of each text that says what happened, not who says so."""
    if isinstance(value, dict):
        return {
            key: f"{SECRET}" if key in WHAT and isinstance(child, str) else planted(child)
            for key, child in value.items()
        }
    return [planted(child) for child in value] if isinstance(value, list) else value


WHAT = {"body", "Message", "data", "S", "N", "B"}


@pytest.mark.parametrize("path", sorted(EVENTS.rglob("*.json")), ids=lambda path: path.stem)
def test_no_recorded_event_shows_what_it_brings(load, environment, capsys, path):
    environment.delenv("KIQBRIDGE_LOG_ARGUMENTS")
    event = planted(json.loads(path.read_text(encoding="utf-8")))

    shown = outcome(load(), event) + capsys.readouterr().out

    assert SECRET[:9] not in shown
    assert not re.search(base64.b64encode(SECRET.encode()).decode(), shown)
