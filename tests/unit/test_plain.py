"""Events may set what Ruby's pages show only to plain values; code may set anything."""

import pytest
from support.parsed_event import parse_event

from kiqbridge import PayloadError

NOW = 1_795_000_000.25
JOB = {"class": "Billing::CloseDay", "args": ["<b>bold</b>"]}
MARKUP = "<script>alert(1)</script>"
NAMES = (
    "class",
    "queue",
    "retry_queue",
    "jid",
    "bid",
    "wrapped",
    "display_class",
    "locale",
    "error_class",
)
NUMBERS = ("created_at", "enqueued_at", "failed_at", "retried_at", "retry_count")


@pytest.mark.parametrize("field", NAMES)
@pytest.mark.parametrize("value", [MARKUP, 'a"b', "a b", "a\n", "a/b", "a%00", "", 5, None, ["a"]])
def test_a_name_that_is_not_plain_is_refused_by_field(field, value):
    with pytest.raises(PayloadError, match=rf"^{field}: "):
        parse_event(JOB | {field: value}, NOW)


@pytest.mark.parametrize("field", NAMES)
@pytest.mark.parametrize("value", ["a", "Billing::Close_Day2", "de-DE", "my.module.Job", "Größe"])
def test_a_plain_name_passes(field, value):
    assert parse_event(JOB | {field: value}, NOW).jobs[0].item[field] == value


@pytest.mark.parametrize("field", NUMBERS)
@pytest.mark.parametrize("value", [MARKUP, "1795000000", True, None, [1], {}])
def test_a_time_or_count_that_is_no_number_is_refused(field, value):
    with pytest.raises(PayloadError, match=rf"^{field}: "):
        parse_event(JOB | {field: value}, NOW)


@pytest.mark.parametrize("field", ["cattr", "cattr_1"])
@pytest.mark.parametrize("value", [5, "x", [], None])
def test_current_attributes_that_are_no_object_are_refused(field, value):
    with pytest.raises(PayloadError, match=rf"^{field}: "):
        parse_event(JOB | {field: value}, NOW)


@pytest.mark.parametrize("value", ["mail", [1], [["a"]], {"a": 1}, 5])
def test_tags_that_are_no_list_of_texts_are_refused(value):
    with pytest.raises(PayloadError, match=r"^tags: "):
        parse_event(JOB | {"tags": value}, NOW)


def test_an_active_job_is_held_to_the_same():
    with pytest.raises(PayloadError, match=r"^active_job: "):
        parse_event({"active_job": MARKUP, "args": []}, NOW)
    with pytest.raises(PayloadError, match=r"^locale: "):
        parse_event({"active_job": "NightlyJob", "args": [], "locale": MARKUP}, NOW)


def test_among_several_jobs_and_in_a_bus_event_the_place_is_named():
    with pytest.raises(PayloadError, match=r"^jobs\[1\]: jid: "):
        parse_event({"jobs": [JOB, JOB | {"jid": MARKUP}]}, NOW)
    event = {"detail-type": "t", "source": "shop", "id": "e", "detail": JOB | {"cattr": 5}}
    with pytest.raises(PayloadError, match=r"^detail: cattr: "):
        parse_event(event, NOW)


def test_arguments_and_foreign_members_stay_free():
    item = JOB | {"note": MARKUP, "tags": ["<b>"], "cattr": {"user": MARKUP}}

    assert parse_event(item, NOW).jobs[0].item == item


@pytest.mark.parametrize("value", ["", 5, None, ["secret"], "secret" * 400, "gehe\u00edm"])
def test_a_task_token_that_is_none_is_refused_without_being_shown(value):
    with pytest.raises(PayloadError, match=r"^task_token: it is not the token of a task") as raised:
        parse_event(JOB | {"task_token": value}, NOW)

    assert "secret" not in str(raised.value)
    assert "gehe" not in str(raised.value)


@pytest.mark.parametrize("value", ["5", True, None, -1, 0.5, [5]])
def test_an_interval_of_heartbeats_that_is_none_is_refused(value):
    with pytest.raises(PayloadError, match=r"^task_heartbeat_s: "):
        parse_event(JOB | {"task_token": "t", "task_heartbeat_s": value}, NOW)


@pytest.mark.parametrize("value", [0, 1, 60, 1.5])
def test_a_task_passes_with_the_job(value):
    item = JOB | {"task_token": "AQC/+=", "task_heartbeat_s": value}

    assert parse_event(item, NOW).jobs[0].item == item


@pytest.mark.parametrize("value", [{"next": {"steps": []}}, {"bid": "a"}, None])
def test_flow_control_is_none_of_an_events_business(value):
    with pytest.raises(PayloadError, match=r"^flow: .* leave it out"):
        parse_event(JOB | {"flow": value}, NOW)
