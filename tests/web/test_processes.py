"""The screen of processes: what each is and serves, mixed versions, and signals to them."""

import json
import re
import time

import pytest
from support.running_system import OLDER, OURS, RUBY, fill_metrics

from kiqbridge.api import ProcessSet, read_audit
from kiqbridge.web.pages.processes import version_of


def signals(redis, identity):
    return [name.decode() for name in redis.lrange(f"{identity}-signals", 0, -1)]


def test_processes_of_python_and_ruby_are_listed_with_what_they_serve_and_do(browser, system):
    page = browser.open("/processes")

    assert "3 processes 22 threads 7 busy 1 quiet" in page.text
    assert "rails-1.example.internal:2117 shop reliable" in page.text
    assert "Sidekiq 8.1.7 2 of 5" in page.text
    assert re.search(r"Kiqbridge \S+ mixed 5 of 12", page.text)
    weighted = "critical {0}3, default {0}2, mailers {0}1 bulk (2): low".format(
        "\N{MULTIPLICATION SIGN}"
    )
    assert weighted in page.text
    assert "/queues/critical" in page.links


def test_workers_of_different_versions_are_pointed_out(browser, system, redis):
    assert "Workers of different versions run: kiqbridge-0.0.9" in browser.open("/processes").text

    redis.srem("processes", OLDER)
    time.sleep(1.1)  # what the screens read is shared for a second

    assert "different versions" not in browser.open("/processes").text


def test_of_one_process_long_names_and_many_queues_are_cut_and_tags_stand_once(browser, redis):
    info = {
        "hostname": "h" * 5000,
        "pid": 1,
        "tag": "shop",
        "labels": ["shop", "berlin", "berlin"],
        "queues": [f"q{number}" for number in range(500)],
        "concurrency": 1,
    }
    redis.sadd("processes", "p")
    redis.hset("p", mapping={"info": json.dumps(info), "busy": 0, "beat": time.time()})

    page = browser.open("/processes")

    assert "h" * 100 not in page.html
    assert "1 process 1 thread 0 busy" in page.text
    assert (page.text.count("shop"), page.text.count("berlin")) == (1, 1)
    assert "q29 and 470 more" in page.text
    assert "1 processes" not in browser.open("/").text


def test_threads_that_run_longer_than_usual_are_marked_with_the_age_of_their_job(browser, system):
    fill_metrics(system)

    page = browser.open("/processes")

    drawn = [
        given["class"]
        for tag, given in page.tags
        if tag == "rect" and "thread" in given.get("class", "")
    ]
    assert (len(drawn), drawn.count("thread-idle")) == (22, 15)
    assert drawn.count("thread-late") == 1  # the report; of the mails the last heartbeat is too old
    assert re.search(r"Reports::Nightly 2 h \d+ min \d+ \S p95 [12] min", page.text)
    assert "and 2 more" in page.text


@pytest.mark.parametrize(("action", "name"), [("quiet", "TSTP"), ("stop", "TERM")])
@pytest.mark.usefixtures("system")
def test_one_process_is_asked_to_quiet_or_stop(browser, operator, redis, action, name):
    answer = browser.send("/processes/act", form_at="/processes", identity=OURS, action=action)

    assert "worker-1.example.internal:4711" in answer.text
    assert "within 10 s" in answer.text
    assert signals(redis, OURS) == [name]
    assert signals(redis, RUBY) == []
    [entry] = read_audit(operator)
    assert (entry.action, entry.target, entry.via) == (action, OURS, "web")


def test_a_process_is_asked_to_dump_its_threads(browser, system, redis):
    answer = browser.send("/processes/dump-threads", form_at="/processes", identity=RUBY)

    assert "writes where each of its threads is to its log" in answer.text
    assert signals(redis, RUBY) == ["TTIN"]


def test_all_processes_are_asked_at_once(browser, system, redis):
    browser.send("/processes/act-on-all", form_at="/processes", status=400, action="stop")
    assert signals(redis, OURS) == []

    answer = browser.send(
        "/processes/act-on-all", form_at="/processes", action="stop", confirmed="1"
    )

    assert "3 processes were asked to stop" in answer.text
    assert [signals(redis, each) for each in (OURS, OLDER, RUBY)] == [["TERM"]] * 3


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"identity": OURS, "action": "kill"}, 400),
        ({"identity": "gone:1:a", "action": "stop"}, 404),
        ({}, 400),
    ],
)
def test_what_is_no_action_or_no_process_is_refused(browser, system, redis, fields, status):
    browser.send("/processes/act", status, form_at="/processes", **fields)

    assert signals(redis, OURS) == []


def test_capsules_are_read_as_each_version_writes_them(operator, system, redis):
    by_identity = {each.identity: each for each in ProcessSet(operator)}
    ours = by_identity[OURS].capsules
    assert [(each.name, each.concurrency, dict(each.queues)) for each in ours] == [
        ("default", 10, {"critical": 3, "default": 2, "mailers": 1}),
        ("bulk", 2, {"low": 0}),
    ]

    for info, queues in (
        ('{"weights":[{"a":2},{"b":0}],"queues":["a","b"]}', [{"a": 2}, {"b": 0}]),
        ('{"weights":{"a":2}}', [{"a": 2}]),
        ('{"queues":["a","b"]}', [{"a": 0, "b": 0}]),
        ('{"capsules":"none"}', [{}]),
    ):
        redis.hset(RUBY, "info", info)
        process = ProcessSet(operator).find(RUBY)
        assert [dict(each.queues) for each in process.capsules] == queues
        assert version_of(process) == "Sidekiq before 7"


@pytest.mark.parametrize(("left_s", "is_late"), [(58, False), (20, True)])
def test_a_heartbeat_is_late_by_the_clock_of_the_server(browser, redis, left_s, is_late):
    redis.sadd("processes", "p")
    redis.hset("p", mapping={"info": "{}", "busy": 0, "beat": time.time() - 300})
    redis.expire("p", left_s)

    assert ("late" in browser.open("/processes").text.split("Heartbeat")[-1]) is is_late
