"""What can be done about a finding: a button of the page where the page can do it, and a command to copy."""

import shlex

import pytest
from support.doctored import beat

from kiqbridge.api import Queue, acts, read_audit
from kiqbridge.commands import cli
from kiqbridge.features.doctor.examination import CATALOGUE
from kiqbridge.features.dynamic.schedule import Schedule
from kiqbridge.features.dynamic.schedules import Schedules
from kiqbridge.store.pauses import Pause

VALUES = {"NAME": "mail", "KIND": "queue", "SET": "retries", "TIME": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize("rule", CATALOGUE.values(), ids=list(CATALOGUE))
def test_each_rule_has_a_command_that_can_be_copied(rule):
    assert rule.command
    words = shlex.split(rule.command)
    if words[0] == "kiqbridge":
        given = [VALUES.get(word, word) for word in words[1:]]
        cli.build_parser(given).parse_args(given)


@pytest.fixture
def filled(redis, operator):
    """A process, a schedule, and what is paused."""
    Schedules(operator.client).save(Schedule("nightly", "Mail", cron="0 3 * * *"))
    operator.client.pause_class("Mail")
    Queue("mail/eu", operator).pause_it("provider", None)
    return beat(redis)


@pytest.mark.parametrize(
    ("act", "answer"),
    [
        (acts.resume(Pause(kind="queue", name="mail/eu")), "mail/eu is served again."),
        (acts.resume(Pause(kind="class", name="Mail")), "Mail runs again."),
        (acts.of_failing("A::B")[0], "A::B is paused for 1 h."),
        (acts.of_failing("A::B")[1], "Kill: 0 jobs under Retries?"),
        (acts.to_all("retry", "Retry", "dead", "newer:3600"), "Retry now: 0 jobs under Dead?"),
        (acts.run_schedule("nightly"), "nightly was run besides its occurrences"),
        (acts.stop(), "1 process was asked to stop"),
        (acts.quiet(), "1 process was asked to take no new jobs"),
        (acts.stop("py-1:1:abcdef"), "py-1:1 stops"),
        (acts.quiet("py-1:1:abcdef"), "py-1:1 takes no new jobs"),
        (acts.dump_threads("py-1:1:abcdef"), "py-1:1 writes where each of its threads is"),
    ],
)
def test_a_button_does_what_its_page_does(browser, filled, operator, act, answer):
    assert answer in browser.press(act).text
    assert answer.endswith("?") or read_audit(operator)


def test_a_finding_has_its_buttons_for_those_who_may_and_its_command(browser, viewer, filled):
    page = browser.open("/doctor")

    posts = [given.get("action") for tag, given in page.tags if tag == "form"]
    assert {"/queues/mail%2Feu", "/metrics/Mail"} <= set(posts)
    assert "kiqbridge queue resume mail/eu" in page.text
    assert "/queues/mail%2Feu" not in [
        given.get("action") for tag, given in viewer.open("/doctor").tags if tag == "form"
    ]
