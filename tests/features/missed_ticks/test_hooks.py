"""Notifications of missed ticks: what is sent, how often it is tried, and that nobody waits for it."""

import json
import logging
import threading
from contextlib import contextmanager
from urllib.parse import parse_qs

import pytest
from support.failing_starts import FailingStarts, assert_begins_late
from support.http_endpoint import body_of, http_endpoint, reply
from support.waiting import wait_until

from kiqbridge.client.server import Server
from kiqbridge.errors import ConfigError
from kiqbridge.features.missed_ticks import hooks
from kiqbridge.features.missed_ticks.hooks import (
    HookFailed,
    MissedTickHooks,
    SnsTopic,
    Webhook,
    hooks_of,
)
from kiqbridge.schedule.missed import MissedTick

ARN = "arn:aws:sns:eu-west-3:123456789012:alarms"
AWS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "c2VjcmV0"}


def tick(at=1_700_000_000, schedule="shop/Nightly", **more):
    return MissedTick(schedule=schedule, at=at, late_s=400.0, policy="alert", is_new=True, **more)


@contextmanager
def receiver(*statuses):
    """An HTTP server that answers with these statuses in turn, then 200; yields its port and requests."""
    answers = list(statuses)
    received = []

    def answer(request):
        headers = {name.lower(): value for name, value in request.headers.items()}
        received.append((request.path, headers, body_of(request)))
        status = answers.pop(0) if answers else 200
        reply(request, status, **({"location": "/elsewhere"} if status == 302 else {}))

    with http_endpoint(answer) as port:
        yield port, received


def webhook_at(port, path="/hook?token=s3cret"):
    return Webhook(f"http://127.0.0.1:{port}{path}")


class TestWebhook:
    def test_it_posts_what_did_not_come(self):
        with receiver() as (port, received):
            MissedTickHooks([webhook_at(port)], by="worker:a").send(
                [tick(), tick(1_700_000_060, enqueued=True), tick(1_700_000_120, reason="too old")]
            )

        [(path, headers, body)] = received
        assert (path, headers["content-type"]) == ("/hook?token=s3cret", "application/json")
        assert json.loads(body) == {
            "event": "missed_ticks",
            "text": "shop/Nightly did not fire at 2023-11-14T22:15:20Z, and 2 more ticks did not come",
            "by": "worker:a",
            "count": 3,
            "ticks": [
                {
                    "schedule": "shop/Nightly",
                    "at": f"2023-11-14T22:{minute}:20Z",
                    "late_s": 400.0,
                    "policy": "alert",
                    "enqueued": enqueued,
                    **reason,
                }
                for minute, enqueued, reason in (
                    (13, False, {}),
                    (14, True, {}),
                    (15, False, {"reason": "too old"}),
                )
            ],
        }

    def test_it_is_tried_again_while_its_server_cannot_and_of_very_many_lists_the_newest(
        self, caplog
    ):
        ticks = [tick(60 * number) for number in range(500)]
        with receiver(503, 429) as (port, received):
            MissedTickHooks([webhook_at(port)], pauses_s=[0, 0, 0]).send(ticks)
        assert len(received) == 3
        assert not caplog.records
        sent = json.loads(received[-1][2])
        assert (sent["count"], len(sent["ticks"])) == (500, 100)
        assert sent["ticks"][-1]["at"] == "1970-01-01T08:19:00Z"

    @pytest.mark.parametrize("statuses", [(404,), (302,), (503, 503, 503)])
    def test_what_is_not_taken_is_logged_without_the_address(self, caplog, statuses):
        with receiver(*statuses) as (port, received):
            MissedTickHooks([webhook_at(port)], pauses_s=[0, 0]).send([tick()])

        assert len(received) == len(statuses)
        [line] = caplog.records
        assert line.levelno == logging.ERROR
        assert f"webhook at 127.0.0.1 answered {statuses[0]}" in line.message
        assert "shop/Nightly did not fire at 2023-11-14T22:13:20Z" in line.message
        assert "s3cret" not in caplog.text

    @pytest.mark.parametrize(
        "url", ["user:s3cret@127.0.0.1:1/x", "127.0.0.1:1/s3cret", "127.0.0.1:x/s3cret"]
    )
    def test_a_server_that_is_away_is_named_without_the_address(self, url):
        hook = Webhook(f"http://{url}")
        with pytest.raises(HookFailed) as failed:
            hook({})
        assert "s3cret" not in str(failed.value) + repr(hook)
        assert failed.value.__cause__ is None
        assert not failed.value.is_final


class TestSnsTopic:
    def test_it_publishes_with_a_signed_request(self):
        with receiver() as (port, received):
            aws = AWS | {"AWS_ENDPOINT_URL_SNS": f"http://127.0.0.1:{port}"}
            MissedTickHooks([SnsTopic(ARN, aws)]).send([tick(schedule="shop/Nächtlich\n")])

        [(path, headers, body)] = received
        form = {name: value for name, [value] in parse_qs(body.decode()).items()}
        assert path == "/"
        assert (form["Action"], form["TopicArn"]) == ("Publish", ARN)
        assert (
            form["Subject"] == "Missed tick: shop/N?chtlich? did not fire at 2023-11-14T22:13:20Z"
        )
        assert json.loads(form["Message"])["ticks"][0]["schedule"] == "shop/Nächtlich\n"
        assert "/eu-west-3/sns/aws4_request" in headers["authorization"]
        assert "c2VjcmV0" not in str(headers)

    def test_without_permission_it_is_not_tried_again_and_without_keys_the_line_says_so(
        self, caplog, monkeypatch
    ):
        with receiver(403) as (port, received):
            aws = AWS | {"AWS_ENDPOINT_URL_SNS": f"http://127.0.0.1:{port}"}
            MissedTickHooks([SnsTopic(ARN, aws)], pauses_s=[0]).send([tick()])
        assert len(received) == 1
        assert f"SNS topic {ARN} answered 403" in caplog.text

        def refuse(_keychain):
            raise HookFailed("no keys", is_final=False)

        monkeypatch.setattr(hooks.Keychain, "keys", refuse)
        MissedTickHooks([SnsTopic(ARN, {})], pauses_s=[]).send([tick()])
        assert f"{ARN}: no keys" in caplog.text


class TestHandlers:
    def test_each_is_called_with_each_tick_and_an_error_ends_nothing(self, caplog):
        called = []

        def broken(_):
            raise ValueError("mine")

        MissedTickHooks([], [broken, called.append]).send([tick(), tick(1_700_000_060)])

        assert [each.at for each in called] == [1_700_000_000, 1_700_000_060]
        assert caplog.text.count("a handler of missed ticks failed") == 2


class TestInTheBackground:
    def test_put_returns_at_once_and_a_thread_sends(self):
        goes_on, sent = threading.Event(), []

        def slow(notification):
            goes_on.wait(30)
            sent.append(notification["text"])

        made = MissedTickHooks([slow])
        made.put([tick()])
        made.put([tick(1_700_000_060)])
        assert sent == []
        goes_on.set()

        wait_until(lambda: len(sent) == 2)
        made.stop()
        assert not made._thread.runs

    def test_more_than_can_wait_are_logged_and_dropped(self, caplog):
        goes_on, entered = threading.Event(), threading.Event()

        def stuck(_):
            entered.set()
            goes_on.wait(30)

        made = MissedTickHooks([stuck])
        made.put([tick()])
        assert entered.wait(30)
        for _ in range(hooks.MOST_WAITING):
            made.put([tick()])
        assert not caplog.records
        made.put([tick(1_700_000_060)])

        assert "so this one is dropped: shop/Nightly 2023-11-14T22:14:20Z" in caplog.text
        goes_on.set()
        made.stop(30)

    def test_at_the_end_it_is_not_tried_again_and_who_has_no_hook_has_no_thread(self):
        def failing(_):
            raise HookFailed("away", is_final=False)

        made = MissedTickHooks([failing], pauses_s=[600])
        made.put([tick()])
        made.stop(30)
        assert not made._thread.runs
        made = hooks_of(webhook="", sns_topic_arn="", aws={}, by="worker:a")
        made.put([tick()])
        made.stop()
        assert not made._thread.runs


def late_thread():
    sent = []
    hooks = MissedTickHooks([sent.append])
    tick = MissedTick(
        schedule="shop/Nightly",
        at=1_700_000_000,
        late_s=60.0,
        policy="skip",
        is_new=True,
        enqueued=False,
    )
    yield hooks._thread, lambda: hooks.put([tick])
    yield lambda: len(sent) == 3
    hooks.stop()


def test_a_thread_that_cannot_start_starts_with_the_next_tick(monkeypatch, caplog):
    assert_begins_late(FailingStarts(monkeypatch), late_thread(), caplog)


def test_a_handler_is_refused_where_the_feature_was_taken_away(monkeypatch):
    monkeypatch.setattr("kiqbridge.seams.named", lambda _name: None)

    with pytest.raises(ConfigError, match="needs the feature missed_ticks, which is not here"):
        Server().missed_tick_handler(print)
