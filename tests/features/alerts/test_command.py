"""`kiqbridge alerts`: what alerts, what has begun, and what is muted."""

import json

import pytest

from kiqbridge.features.alerts.state import Alert

RULES = {"retries": {"over": 5000, "for_s": 120.0}, "deaths": {"over": None, "for_s": 60.0}}
BEGUN = Alert(rule="deaths", since=1_800_000_000, severity="warning", what="3 jobs died.")


@pytest.fixture
def known(redis):
    redis.hset("kb:alerts", mapping={"rules": json.dumps(RULES), "alert deaths": BEGUN.text()})


def test_a_fleet_without_alerts_is_shown_where_they_are_named(run):
    code, out, err = run("alerts", "list")
    assert (code, err) == (0, "")
    assert "no rule alerts: name some in the settings" in out


def test_rules_are_listed_with_their_state(run, known):
    _, out, _ = run("alerts", "list")
    lines = [line.split() for line in out.splitlines()]
    assert ["retries", "over", "5000,", "for", "2", "min", "quiet"] in lines
    assert "deaths" in out and "since 2027-01-15T08:00:00Z" in out and "3 jobs died." in out

    document = json.loads(run("alerts", "list", "--json")[1])
    assert document["alerts"]["deaths"]["severity"] == "warning"
    assert list(document["rules"]) == list(RULES)


def test_a_rule_is_muted_and_unmuted_and_both_are_in_the_audit_log(run, known):
    code, out, _ = run("alerts", "mute", "retries", "--for", "2h")
    assert (code, out[:22]) == (0, "muted retries until 20")
    assert "muted until" in run("alerts", "list")[1]
    assert run("alerts", "unmute", "retries") == (0, "unmuted retries\n", "")
    assert run("alerts", "unmute", "retries") == (0, "retries was not muted\n", "")
    audit = run("audit")[1]
    assert "alert:retries" in audit
    assert "unmute" in audit


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("mute", "retires", "--for", "1h"), "retires sends no alert; did you mean retries"),
        (("mute", "retries"), "--for"),
        (("mute", "retries", "--for", "soon"), "no duration"),
        (("watch",), "the settings name none"),
        (("watch", "-C", "nothing.yml"), "no such file"),
    ],
)
def test_what_cannot_be_done_says_why(run, known, words, reason):
    code, _, err = run("alerts", *words)
    assert code == (1 if words[0] == "watch" else 2)
    assert reason in err
