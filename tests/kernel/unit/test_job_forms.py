"""Reading events: which jobs they ask for, when to run them, and what is refused."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.parsed_event import parse_event

from kiqbridge import EventError, PayloadError
from kiqbridge.aws.job_forms import JobRequest, Tick
from kiqbridge.wire.guards import event_identity

NOW = 1_795_000_000.25
JOB = {"class": "Mail", "args": [1]}
TICK = {"schedule": "shop/Mail", "at": "2026-11-20T02:00:00Z"}
INSTANT = 1795140000


def test_a_tick_beside_one_job_and_beside_several():
    tick = Tick(schedule="shop/Mail", instant=INSTANT, at=TICK["at"])
    record = parse_event(JOB, NOW)
    assert (record.jobs, record.tick) == ([JobRequest(item=JOB)], None)
    one = parse_event(JOB | {"tick": TICK}, NOW)
    several = parse_event({"jobs": [JOB, JOB], "tick": TICK}, NOW)
    assert (one.jobs, one.tick) == ([JobRequest(item=JOB)], tick)
    assert (several.jobs, several.tick) == ([JobRequest(item=JOB)] * 2, tick)
    arn = "arn:aws:scheduler:eu-west-1:123456789012:schedule/shop/Mail"
    assert parse_event(JOB | {"tick": TICK | {"schedule": arn}}, NOW).tick.schedule == arn


def test_several_jobs_each_with_its_own_time_and_key():
    event = {"jobs": [JOB | {"in": 60}, JOB | {"dedupe_key": "a"}, JOB | {"at": 4102444800}]}
    before = json.dumps(event)
    assert parse_event(event, NOW).jobs == [
        JobRequest(item=JOB | {"at": NOW + 60}),
        JobRequest(item=JOB, dedupe_key="a"),
        JobRequest(item=JOB | {"at": 4102444800}),
    ]
    assert json.dumps(event) == before


@pytest.mark.parametrize("wrong", [{"overlap": "run"}, {"max_age_s": "1h"}, {"missed": None}])
def test_a_tick_may_have_the_policies_of_its_schedule_and_no_others(wrong):
    more = {"overlap": "skip", "max_age_s": 60, "missed": "last", "grace_s": 0}
    tick = parse_event(JOB | {"tick": TICK | more}, NOW).tick
    assert (tick.overlap, tick.max_age_s) == ("skip", 60)
    [member] = wrong
    with pytest.raises(EventError, match=f"tick.{member}: "):
        parse_event(JOB | {"tick": TICK | more | wrong}, NOW)


def test_a_bus_event_gives_its_id_to_what_has_no_identity():
    def parsed(detail):
        event = {"detail-type": "t", "source": "shop", "id": "e", "detail": detail}
        return parse_event(event, NOW)

    keyed = JOB | {"dedupe_key": "k"}

    assert parsed(JOB).jobs == [JobRequest(item=JOB, dedupe_key=event_identity("e").of_job(0))]
    assert parsed(keyed).jobs == [JobRequest(item=JOB, dedupe_key="k")]
    assert parsed({"jobs": [JOB]}).jobs == parsed(JOB).jobs
    assert [job.dedupe_key for job in parsed({"jobs": [JOB, keyed, JOB]}).jobs] == [
        event_identity("e").of_job(0),
        "k",
        event_identity("e").of_job(2),
    ]
    assert parsed(JOB | {"tick": TICK}) == parse_event(JOB | {"tick": TICK}, NOW)


@pytest.mark.parametrize("source", ["aws.events", "aws.scheduler"])
@pytest.mark.parametrize("detail", ["{}", {}, JOB])
def test_a_schedule_that_names_no_job_is_refused_whatever_its_detail(source, detail):
    event = {"detail-type": "Scheduled Event", "source": source, "id": "e", "time": TICK["at"]}
    event["resources"] = ["arn:aws:events:eu-west-1:123456789012:rule/nightly"]
    with pytest.raises(EventError, match="delivered a schedule that names no job"):
        parse_event(event | {"detail": detail}, NOW)


@pytest.mark.parametrize(
    ("at", "instant"),
    [
        ("2026-11-20T02:00:00Z", INSTANT),
        ("2026-11-20T02:00:59.999Z", INSTANT),
        ("2026-11-20T03:00:30+01:00", INSTANT),
        ("2026-11-20 02:00Z", INSTANT),
        (INSTANT, INSTANT),
        (INSTANT + 59.9, INSTANT),
        (-1, -60),
    ],
)
def test_a_tick_is_the_full_minute_in_utc(at, instant):
    assert parse_event(JOB | {"tick": TICK | {"at": at}}, NOW).tick.instant == instant


def test_attempts_of_scheduler_that_carry_its_context_are_one_occurrence():
    arn = "arn:aws:scheduler:eu-west-1:123456789012:schedule/shop/Mail"

    def attempt(number):
        context = {
            "schedule-arn": arn,
            "scheduled-time": TICK["at"],
            "attempt-number": str(number),
            "execution-id": f"another one each time {number}",
        }
        return parse_event(JOB | {"_schedule": context}, NOW)

    assert attempt(1) == attempt(2)
    assert attempt(1).tick == Tick(schedule=arn, instant=INSTANT, at=TICK["at"])
    assert attempt(1).jobs == [JobRequest(item=JOB)]


@pytest.mark.parametrize("context", ["an arn", {}, {"schedule-arn": "a"}, {"scheduled-time": 1}, 5])
def test_a_context_that_names_no_occurrence_is_refused(context):
    with pytest.raises(EventError, match=r"^_schedule: "):
        parse_event(JOB | {"_schedule": context}, NOW)
    with pytest.raises(EventError, match=r"^_schedule: cannot stand beside tick"):
        parse_event(JOB | {"_schedule": context, "tick": TICK}, NOW)


@pytest.mark.parametrize("value", [10**10, 999_999_999_999_999, 1_000_000_000, float("inf")])
def test_an_interval_of_decades_is_refused(value):
    with pytest.raises(PayloadError, match=r"^in: "):
        parse_event(JOB | {"in": value}, NOW)


def test_other_angle_brackets_are_arguments_like_any_other():
    args = [
        "<time>",
        "${X}",
        {"<aws": "< aws.x>"},
        {"from <aws.bob@example.com>": ["<aws.scheduler>"]},
    ]

    assert parse_event(JOB | {"args": args, "tick": TICK}, NOW).jobs[0].item["args"] == args


@pytest.mark.parametrize(
    "hidden",
    [
        {"args": ["<aws.scheduler.attempt-number>"]},
        {"args": [{"<aws.scheduler.schedule-arn>": 1}]},
        {"tick": TICK | {"attempt": "<aws.scheduler.attempt-number>"}},
        {"jid": "<aws.scheduler.execution-id>"},
        {"class": "<aws.x"},
    ],
)
def test_a_context_attribute_that_was_not_filled_in_is_found_anywhere(hidden):
    with pytest.raises(EventError, match=r"'<aws.* was not filled in"):
        parse_event(JOB | hidden, NOW)


def test_nesting_far_too_deep_is_refused_like_other_values():
    deep = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(PayloadError, match="nested deeper than 100 levels"):
        parse_event(JOB | {"args": deep}, NOW)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
    st.sampled_from(
        ["event", "class", "args", "queue", "jid", "in", "at", "dedupe_key", "tick", "detail", "id"]
    ),
)
def test_no_value_in_any_place_causes_another_error_than_ours(value, place):
    event = value if place == "event" else JOB | {place: value}
    if place in ("detail", "id"):
        event = {"detail-type": "t", "source": "shop", "id": "e", "detail": JOB, place: value}

    try:
        request = parse_event(event, NOW)
    except (EventError, PayloadError) as error:
        assert str(error)  # noqa: PT017 - either outcome is right
    else:
        [job] = request.jobs
        assert job.item["class"]
        assert job.item.get("at", NOW + 1) > NOW


@given(st.datetimes(min_value=datetime(2027, 1, 1), max_value=datetime(2999, 1, 1)))  # noqa: DTZ001
def test_iso_text_and_epoch_seconds_mean_the_same_time(moment):
    moment = moment.replace(tzinfo=UTC, microsecond=0)

    as_text = parse_event(JOB | {"at": moment.isoformat()}, NOW)

    assert as_text == parse_event(JOB | {"at": moment.timestamp()}, NOW)


PLAIN_JOB = {"class": "Billing::CloseDay", "args": ["<b>bold</b>"]}
MARKUP = "<script>alert(1)</script>"
NAMES = (
    *("class", "queue", "retry_queue", "jid", "bid", "wrapped", "display_class", "locale"),
    "error_class",
)
NUMBERS = ("created_at", "enqueued_at", "failed_at", "retried_at", "retry_count")


NO_NAMES = [MARKUP, 'a"b', "a b", "a\n", "a/b", "a%00", "", 5, None, ["a"]]
NO_NUMBERS = [MARKUP, "1795000000", True, None, [1], {}]


@pytest.mark.parametrize(
    ("field", "values"),
    [
        *((name, NO_NAMES) for name in NAMES),
        *((name, NO_NUMBERS) for name in NUMBERS),
        *((name, [5, "x", [], None]) for name in ("cattr", "cattr_1")),
        ("tags", ["mail", [1], [["a"]], {"a": 1}, 5]),
        # Flow control is none of an event's business.
        ("flow", [{"next": {"steps": []}}, {"bid": "a"}, None]),
    ],
)
def test_a_member_of_another_form_is_refused_by_field(field, values):
    for value in values:
        with pytest.raises(PayloadError, match=rf"^{field}: "):
            parse_event(PLAIN_JOB | {field: value}, NOW)


@pytest.mark.parametrize("field", NAMES)
@pytest.mark.parametrize("value", ["a", "Billing::Close_Day2", "de-DE", "my.module.Job", "Größe"])
def test_a_plain_name_passes(field, value):
    assert parse_event(PLAIN_JOB | {field: value}, NOW).jobs[0].item[field] == value


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"jobs": [PLAIN_JOB, PLAIN_JOB | {"jid": MARKUP}]}, r"jobs\[1\]: jid"),
        (
            {"detail-type": "t", "source": "shop", "id": "e", "detail": PLAIN_JOB | {"cattr": 5}},
            "detail: cattr",
        ),
    ],
)
def test_several_jobs_and_a_bus_event_are_held_to_the_same(event, field):
    with pytest.raises(PayloadError, match=f"^{field}: "):
        parse_event(event, NOW)


def test_arguments_and_foreign_members_stay_free():
    item = PLAIN_JOB | {"note": MARKUP, "tags": ["<b>"], "cattr": {"user": MARKUP}}
    assert parse_event(item, NOW).jobs[0].item == item
