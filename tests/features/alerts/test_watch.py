"""Alerts of a fleet: begun once, ended once, whoever leads, and whatever a receiver answers."""

import html
import json
import time
from urllib.parse import parse_qs

import pytest
from support.aws_services import KEYS
from support.http_endpoint import body_of, http_endpoint, reply, webhook
from support.waiting import wait_until

from kiqbridge.errors import PayloadError
from kiqbridge.features.alerts.setting import parse_alerts
from kiqbridge.features.alerts.state import Alert, fetch_alerts, mute_alert, unmute_alert
from kiqbridge.features.alerts.watch import LONGEST_PAUSE_S, PAGERDUTY, AlertWatch


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watching(operator, clock):
    """Makes a watch that looks when it is told to."""

    def make(*to, rules=None, leads=lambda: True, **settings):
        given = {"rules": rules or {"retries": {"over": 2, "for": "1m"}}, "to": list(to)}
        return AlertWatch(
            parse_alerts(given, "test"), operator, leads=leads, aws={}, monotonic=clock, **settings
        )

    return make


def fail(redis, count=3):
    redis.zadd(
        "retry", {json.dumps({"class": "A", "jid": f"{number}"}): 9e9 for number in range(count)}
    )


def test_an_alert_is_sent_once_when_it_begins_and_once_when_it_ends(redis, watching, clock):
    with webhook() as (url, received):
        watch = watching({"webhook": url})
        fail(redis)
        for clock.now in (0, 10, 59.9):
            watch.look()
        assert received == []
        for clock.now in (60, 70, 80):
            watch.look()
        [begun] = received
        redis.delete("retry")
        for clock.now in (90, 100):
            watch.look()

    assert (begun["event"], begun["rule"], begun["ended"]) == ("alert_begun", "retries", None)
    assert "3 jobs failed and wait for their retry" in begun["text"]
    [_, ended] = received
    assert (ended["event"], ended["since"]) == ("alert_ended", begun["since"])
    assert ended["ended"] >= ended["since"]
    assert redis.hkeys("kb:alerts") == [b"rules"]


def test_an_error_of_any_class_does_not_end_its_thread(redis, watching, caplog):
    looks = []

    def leads():
        looks.append(1)
        if len(looks) == 1:
            raise SystemExit("a job raised it in all threads of the process")
        return True

    with webhook() as (url, received):
        fail(redis)
        watch = watching(
            {"webhook": url}, rules={"retries": {"over": 2, "for": 0}}, leads=leads, look_s=0.01
        )
        watch.start()
        try:
            wait_until(lambda: received, what="the alert")
        finally:
            watch.stop()

    assert not watch.alive
    assert "an error ended the loop of thread alerts; the loop is started again" in caplog.text


def test_another_leader_goes_on_with_what_has_begun(redis, watching, clock):
    with webhook() as (url, received):
        fail(redis)
        first, second = (
            watching({"webhook": url}, rules={"retries": {"over": 2, "for": 0}}) for _ in "ab"
        )
        first.look()
        second.look()
        redis.delete("retry")
        second.look()
        first.look()
    assert [each["event"] for each in received] == ["alert_begun", "alert_ended"]


def test_who_does_not_lead_looks_at_nothing(redis, watching):
    with webhook() as (url, received):
        fail(redis)
        watching(
            {"webhook": url}, rules={"retries": {"over": 2, "for": 0}}, leads=lambda: False
        ).look()
    assert received == []
    assert not redis.exists("kb:alerts")


def test_a_receiver_that_fails_is_tried_again_after_growing_pauses_and_the_other_is_not_sent_twice(
    redis, watching, clock, caplog
):
    status, tries = [500], []

    def answer(request):
        body_of(request)
        tries.append(clock.now)
        reply(request, status[0], Location="http://10.0.0.1/")

    with http_endpoint(answer) as port, webhook() as (url, received):
        failing = f"http://127.0.0.1:{port}/s3cret"
        watch = watching(
            {"webhook": failing}, {"webhook": url}, rules={"retries": {"over": 2, "for": 0}}
        )
        fail(redis)
        for clock.now in range(0, 3600, 10):
            watch.look()
        assert tries[:5] == [0, 10, 30, 70, 150]
        assert tries[-1] - tries[-2] == LONGEST_PAUSE_S
        assert len(received) == 1
        status[0] = 302  # a redirect is not followed: it would lead anywhere
        clock.now = 7200
        watch.look()
        count = len(tries)
        clock.now = 10_000
        watch.look()
        assert len(tries) == count, "a refusal is final"
    assert "s3cret" not in caplog.text
    assert "answered 500; tried again in 300 s" in caplog.text
    assert "answered 302; it is not sent there again" in caplog.text


def test_a_receiver_that_fails_keeps_no_alert_from_the_others(redis, watching, clock):
    status = [200]

    def answer(request):
        body_of(request)
        reply(request, status[0])

    with http_endpoint(answer) as port, webhook() as (url, received):
        failing = {"webhook": f"http://127.0.0.1:{port}/"}
        watch = watching(failing, {"webhook": url}, rules={"retries": {"over": 2, "for": 0}})
        fail(redis)
        watch.look()
        status[0] = 500
        for clock.now in (10, 20):
            redis.delete("retry")
            watch.look()
            fail(redis)
            watch.look()

    begun, ended = "alert_begun", "alert_ended"
    assert [each["event"] for each in received] == [begun, ended, begun, ended, begun]


def test_the_end_of_an_alert_whose_begin_nobody_got_is_not_sent(redis, watching, clock):
    def answer(request):
        body_of(request)
        reply(request, 500)

    with http_endpoint(answer) as port:
        watch = watching(
            {"webhook": f"http://127.0.0.1:{port}/"}, rules={"retries": {"over": 2, "for": 0}}
        )
        fail(redis)
        watch.look()
        redis.delete("retry")
        clock.now = 10
        watch.look()
    assert redis.hkeys("kb:alerts") == [b"rules"]


def test_a_muted_rule_begins_no_alert_and_one_that_has_begun_ends(redis, watching, operator, clock):
    with webhook() as (url, received):
        watch = watching({"webhook": url}, rules={"retries": {"over": 2, "for": 0}, "deaths": None})
        watch.look()
        with pytest.raises(PayloadError, match="retires sends no alert; did you mean retries"):
            mute_alert("retires", 60, operator=operator)
        assert mute_alert("retries", 60, operator=operator) > fetch_alerts(operator).at
        fail(redis)
        watch.look()
        assert received == []
        assert unmute_alert("retries", operator=operator)
        assert not unmute_alert("retries", operator=operator)
        watch.look()
        mute_alert("retries", 60, operator=operator)
        redis.delete("retry")
        watch.look()
    assert [each["event"] for each in received] == ["alert_begun", "alert_ended"]


def test_a_rule_that_alerts_no_more_leaves_nothing(redis, watching):
    with webhook() as (url, received):
        fail(redis)
        watching({"webhook": url}, rules={"retries": {"over": 2, "for": 0}}).look()
        watching({"webhook": url}, rules={"deaths": None}).look()
    assert len(received) == 1
    assert list(json.loads(redis.hget("kb:alerts", "rules"))) == ["deaths"]
    assert redis.hlen("kb:alerts") == 1


def test_a_job_of_ones_own_gets_it_as_its_argument(redis, watching):
    watch = watching({"job": "NotifyOps", "queue": "ops"}, rules={"retries": {"over": 2, "for": 0}})
    fail(redis)
    watch.look()
    watch.look()
    [text] = redis.lrange("queue:ops", 0, -1)
    job = json.loads(text)
    assert job["class"] == "NotifyOps"
    assert job["args"][0]["event"] == "alert_begun"


def test_a_text_of_somebody_else_in_its_place_is_passed_over(redis, watching):
    redis.hset("kb:alerts", mapping={"alert retries": "{}", "rules": "[", "mute retries": "soon"})
    with webhook() as (url, received):
        fail(redis)
        watching({"webhook": url}, rules={"retries": {"over": 2, "for": 0}}).look()
    assert len(received) == 1


@pytest.mark.parametrize("kind", ["slack", "teams", "pagerduty"])
def test_each_service_gets_its_own_form(operator, redis, watching, monkeypatch, kind):
    with webhook() as (url, received):
        monkeypatch.setattr("kiqbridge.features.alerts.watch.PAGERDUTY", url)
        watch = watching(
            {kind: "key" if kind == "pagerduty" else url}, rules={"retries": {"over": 2, "for": 0}}
        )
        fail(redis)
        watch.look()
        redis.delete("retry")
        watch.look()
    begun, ended = received
    if kind == "slack":
        assert set(begun) == {"text", "mrkdwn"}
        assert begun["text"].startswith("Warning: 3 jobs failed")
        assert ended["text"].startswith("Over after 0 s: retries.")
    elif kind == "teams":
        [card] = begun["attachments"]
        assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
        [run] = card["content"]["body"][0]["inlines"]
        assert run["text"].startswith("Warning: 3 jobs failed")
    else:
        assert PAGERDUTY.startswith("https://events.pagerduty.com/")
        assert [each["event_action"] for each in received] == ["trigger", "resolve"]
        assert begun["dedup_key"] == ended["dedup_key"] == "kiqbridge/retries"
        assert (begun["routing_key"], begun["payload"]["severity"]) == ("key", "warning")


HOSTILE = "<!channel> [Sign in](https://evil.example) <https://evil.example|Sign in> & **x**"


@pytest.mark.parametrize("kind", ["slack", "teams"])
def test_the_name_of_a_queue_is_no_markup(redis, watching, kind):
    now = time.time()
    job = {"class": "A", "args": [], "jid": "a" * 24, "queue": HOSTILE, "enqueued_at": now - 999}
    process = {"hostname": "host", "pid": 1, "queues": ["default"], "concurrency": 5}
    process |= {"started_at": now, "identity": "host:1:abc", "labels": [], "tag": ""}
    redis.sadd("processes", "host:1:abc")
    beat = {"info": json.dumps(process), "busy": 0, "beat": now, "quiet": "false"}
    redis.hset("host:1:abc", mapping=beat)
    redis.sadd("queues", HOSTILE)
    redis.lpush(f"queue:{HOSTILE}", json.dumps(job))
    with webhook() as (url, received):
        watching({kind: url}, rules={"unserved-queue": {"for": 0}}).look()
    [message] = received
    if kind == "slack":
        assert "<" not in message["text"] and "&lt;!channel&gt;" in message["text"]
        assert message["mrkdwn"] is False
        assert HOSTILE in html.unescape(message["text"])
    else:
        [block] = message["attachments"][0]["content"]["body"]
        assert block["type"] == "RichTextBlock"
        assert [each["type"] for each in block["inlines"]] == ["TextRun"]
        assert HOSTILE in block["inlines"][0]["text"]


def test_a_topic_gets_a_subject_on_one_line(operator, redis):
    forms = []

    def answer(request):
        forms.append(parse_qs(body_of(request).decode()))
        reply(request, 200)

    given = {
        "rules": {"retries": {"over": 2, "for": 0}},
        "to": [{"sns": "arn:aws:sns:eu-west-1:123456789012:ops"}],
    }
    with http_endpoint(answer) as port:
        aws = {**KEYS, "AWS_ENDPOINT_URL_SNS": f"http://127.0.0.1:{port}"}
        fail(redis)
        AlertWatch(parse_alerts(given, "test"), operator, leads=lambda: True, aws=aws).look()
    [form] = forms
    assert form["Subject"][0].startswith("Warning: 3 jobs failed")
    assert json.loads(form["Message"][0])["event"] == "alert_begun"


def test_the_page_now_shows_alerts_and_what_is_muted_and_a_key_of_another_type_hides_nothing(
    browser, redis
):
    begun = Alert(rule="deaths", since=1_800_000_000, severity="warning", what="3 jobs died.")
    redis.hset("kb:alerts", mapping={"alert deaths": begun.text(), "mute retries": 9_000_000_000})
    text = browser.open("/").text
    assert "Alerts: deaths since" in text
    assert "; retries muted until" in text

    redis.delete("kb:alerts")
    redis.set("kb:alerts", "text")
    wait_until(lambda: "Alerts:" not in browser.open("/").text)
