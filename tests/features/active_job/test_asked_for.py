"""An item with the key `active_job` in an event, a guard, a tick; and a worker that has not the feature."""

import json
import random
from datetime import UTC, datetime

import pytest
from support.enqueue_function import queued
from support.parsed_event import parse_event

from kiqbridge import Client, NotAllowed, PayloadError, seams
from kiqbridge.engine.perform.gate import Gate, Refusal
from kiqbridge.wire.active_job import NEW_WRAPPER, OLD_WRAPPER

NOW = 1_790_000_000.0
JOB = {"class": OLD_WRAPPER, "wrapped": "Nightly", "args": [{"job_class": "Nightly"}]}
MARKUP = "<script>alert(1)</script>"


class Paused:
    def __init__(self, *classes):
        self.classes = frozenset(classes)


def refusal(job, *paused, unknown_class="retry"):
    return Gate(
        paused=Paused(*paused),
        declared=("Mail",),
        foreign_jobs="refuse",
        unknown_class=unknown_class,
        rng=random.Random(1),
        wall_now=lambda: NOW,
    ).check(job)


def test_an_active_job_by_its_own_name_is_wrapped_for_rails(invoke, redis):
    item = {
        "active_job": "Billing::Close",
        "queue": "rails",
        "args": [{"_aj_globalid": "gid://shop/Order/1"}],
        "kwargs": {"copy": True},
    }
    tick = {"tick": {"schedule": "shop/Close", "at": f"{datetime.now(UTC):%FT%H:%M:00Z}"}}

    answer = invoke(item)
    [first] = invoke(item | tick)["enqueued"]
    [again] = invoke(item | tick)["duplicates"]
    [bulk] = invoke({"jobs": [item | {"dedupe_key": "event", "in": 60}]})["enqueued"]
    old = {"schedule": "shop/Close", "at": "2026-01-01T00:00:00Z", "on_stale": "ignore"}
    [stale] = invoke(item | {"tick": old})["stale"]

    assert answer["enqueued"][0].keys() == {"jid", "class", "queue"}
    assert first == again
    assert {each["class"] for each in (first, bulk, stale)} == {"Billing::Close"}
    payloads = queued(redis, "rails")
    assert [payload["jid"] for payload in payloads] == [
        answer["enqueued"][0]["jid"],
        first["jid"],
    ]
    [inner] = payloads[0]["args"]
    assert (payloads[0]["class"], payloads[0]["wrapped"]) == (OLD_WRAPPER, "Billing::Close")
    assert (inner["job_class"], inner["queue_name"]) == ("Billing::Close", "rails")
    assert inner["arguments"] == [
        {"_aj_globalid": "gid://shop/Order/1"},
        {"copy": True, "_aj_ruby2_keywords": ["copy"]},
    ]
    assert "dedupe_key" not in json.loads(redis.zrange("schedule", 0, -1)[0])


def test_what_the_wrapper_runs_is_held_against_the_allow_list(invoke, redis):
    with pytest.raises(NotAllowed, match=r"args\[0\].job_class: 'Kernel' is not among the classes"):
        invoke(JOB | {"wrapped": "HealthPulse", "args": [{"job_class": "Kernel"}]})

    assert redis.dbsize() == 0


@pytest.mark.parametrize(
    ("more", "field"), [({"active_job": MARKUP}, "active_job"), ({"locale": MARKUP}, "locale")]
)
def test_names_of_an_event_are_held_to_the_form_of_any_job(more, field):
    with pytest.raises(PayloadError, match=f"^{field}: "):
        parse_event({"active_job": "NightlyJob", "args": [], **more}, NOW)


def test_keyword_arguments_of_an_event_may_have_angle_brackets():
    item = {"active_job": "NightlyJob", "args": [], "kwargs": {"to": "<aws.bob@example.com>"}}

    assert parse_event(item, NOW).jobs[0].item["kwargs"] == item["kwargs"]


def test_a_guard_is_about_the_class_inside(redis_url):
    client = Client(redis_url)
    asked = [{"active_job": name, "args": []} for name in ("Mail", "Bill", "Mail")]

    assert [client.push_once([each], ["order-5"])[0].duplicate for each in asked] == [
        False,
        False,
        True,
    ]


def test_a_tick_of_a_job_that_its_schedule_does_not_name_is_enqueued_apart_once(redis_url, redis):
    client, minute = Client(redis_url), datetime.now(UTC).timestamp() // 60 * 60
    own = {"class": "Work", "args": []}
    redis.hset("kb:schedules", "s", json.dumps({"expression": "* * * * *", "jobs": [own]}))
    other = {"active_job": "Work::Other", "args": []}

    assert [
        client.push_tick("s", minute, [each], by="aws", overlap="skip").kind
        for each in (other, other, own, own, other)
    ] == ["enqueued", "duplicate", "enqueued", "duplicate", "duplicate"]


@pytest.mark.parametrize(("paused", "runs"), [("Nightly", False), (OLD_WRAPPER, True)])
def test_a_pause_is_of_the_class_inside(paused, runs):
    assert (refusal(JOB, paused) is None) is runs


def test_one_that_is_not_declared_here_is_routed():
    assert refusal(JOB, unknown_class="route:ruby") == Refusal(queue="ruby")


@pytest.mark.parametrize("wrapper", [OLD_WRAPPER, NEW_WRAPPER])
def test_without_the_feature_a_wrapped_job_is_refused_with_its_name(monkeypatch, wrapper):
    wanted = {f"class.{OLD_WRAPPER}": "active_job", f"class.{NEW_WRAPPER}": "active_job"}
    monkeypatch.setattr(seams, "missing", lambda: wanted)

    error = refusal(JOB | {"class": wrapper}).error

    assert f"has class.{wrapper}, and this worker lacks the feature active_job" in str(error)
    assert wanted.items() <= dict(seams.ATTRIBUTES).items()
    assert refusal({"class": "Mail", "args": []}) is None


def test_without_the_feature_an_item_is_refused(monkeypatch, redis_url, redis):
    seams.call.cache_clear()
    monkeypatch.setattr(seams, "named", lambda _name: None)

    with pytest.raises(PayloadError, match="the feature active_job is not here"):
        Client(redis_url).push({"active_job": "NightlyJob", "args": []})

    assert redis.dbsize() == 0
