"""The doctor's screen: what is wrong with why and what to do, what is well folded."""

import json

import pytest

from kiqbridge.api.verdict import Finding, Status
from kiqbridge.features.doctor import page as doctor


def finding(status, number=1):
    return Finding(
        rule=f"rule-{number}",
        area="redis",
        status=status,
        what=f"found <{number}>",
        why="" if status is Status.OK else "it matters",
        do="" if status is Status.OK else "do this",
    )


def test_the_findings_about_this_redis_are_shown(browser, redis):
    redis.sadd("queues", "mail")
    redis.lpush("queue:mail", '{"class":"Mail","args":[],"jid":"' + "a" * 24 + '"}')

    page = browser.open("/doctor")

    assert "Do:" in page.text
    assert "checks found nothing wrong" in page.text


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ([Status.OK, Status.OK], "All is well. No check found anything wrong."),
        ([Status.WARNING, Status.OK], "1 warning. It works, and may not for long"),
        (
            [Status.WARNING, Status.PROBLEM, Status.WARNING],
            "1 problem and 2 warnings. Jobs are lost",
        ),
    ],
)
def test_the_verdict_is_that_of_the_worst_finding(browser, redis, monkeypatch, statuses, verdict):
    found = [finding(status, number) for number, status in enumerate(statuses)]
    monkeypatch.setattr("kiqbridge.features.doctor.examination.examine", lambda _operator: found)

    page = browser.open("/doctor")

    assert verdict in page.text


def test_the_worst_comes_first_and_what_is_found_is_text(browser, redis, monkeypatch):
    found = [finding(status, number) for number, status in enumerate(Status)]
    monkeypatch.setattr("kiqbridge.features.doctor.examination.examine", lambda _operator: found)

    page = browser.open("/doctor")

    words = [f"Found <{list(Status).index(Status(name))}>" for name in doctor.ORDER]
    assert [page.text.index(word) for word in words] == sorted(
        page.text.index(word) for word in words
    )
    assert "<1>" not in page.html
    assert "Why: It matters." in page.text


def test_of_very_many_findings_of_a_rule_the_first_are_shown(browser, redis):
    for number in range(205):
        redis.sadd("queues", f"q{number:03}")
        redis.lpush(f"queue:q{number:03}", '{"class":"Mail","args":[],"jid":"a"}')
    redis.sadd("processes", "p")
    info = json.dumps({"hostname": "web1", "pid": 1, "queues": ["x"]})
    redis.hset("p", mapping={"info": info, "quiet": "false", "busy": 0})

    assert browser.open("/doctor").text.count("o process serves the queue") == 101
