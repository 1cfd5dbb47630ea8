"""`alerts:` of the settings: what is understood, and what is refused."""

import json

import pytest

from kiqbridge.api.verdict import Limits
from kiqbridge.errors import ConfigError
from kiqbridge.features.alerts.setting import LIMIT_OF, parse_alerts

SECRET = "https://hooks.example.com/T0/s3cret"
GIVEN = {
    "rules": {
        "queue-latency": {"over": 300, "for": "2m"},
        "missed-ticks": {"for": 0},
        "deaths": None,
    },
    "to": [
        {"slack": SECRET},
        {"job": "NotifyOps", "queue": "ops"},
        {"sns": "arn:aws:sns:eu-west-1:1:t"},
    ],
}


def test_a_file_and_the_environment_say_the_same():
    for value in (GIVEN, json.dumps(GIVEN)):
        alerts = parse_alerts(value, "config.yml")
        assert [(each.name, each.over, each.for_s) for each in alerts.rules] == [
            ("queue-latency", 300, 120.0),
            ("missed-ticks", None, 0.0),
            ("deaths", None, 60.0),
        ]
        assert [(each.kind, each.queue) for each in alerts.to] == [
            ("slack", "default"),
            ("job", "ops"),
            ("sns", "default"),
        ]
        assert "s3cret" not in repr(alerts)
    assert parse_alerts("", "KIQBRIDGE_ALERTS") is parse_alerts(None, "x") is None


def test_the_limit_of_each_rule_is_one_of_the_verdict():
    limits = [limit for limit in LIMIT_OF.values() if limit]

    assert len(limits) == 8
    assert all(hasattr(Limits(), each) for each in limits)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rules": {"deahts": {}}}, "deahts is not known; did you mean deaths"),
        ({"rules": {}}, "at least one rule"),
        ({"rules": {"deaths": {"above": 1}}}, "above is not known"),
        ({"rules": {"deaths": {"over": "many"}}}, "over: 'many' is no number"),
        ({"rules": {"no-worker": {"over": 1}}}, "no limit"),
        ({"rules": {"deaths": {"for": "soon"}}}, "no duration"),
        ({"rules": ["deaths"]}, "no mapping"),
        ({"to": []}, "one receiver"),
        ({"to": [{"smoke": "signal"}]}, "smoke is not known"),
        ({"to": [{"slack": SECRET, "job": "A"}]}, "names one of"),
        ({"to": [{"slack": SECRET, "queue": "A"}]}, "names one of"),
        ({"to": [{"webhook": "http://hooks.example.com/s3cret"}]}, "https"),
        ({"to": [{"webhook": "https:///s3cret"}]}, "https"),
        (
            {"to": [{"webhook": "https://ops:s3cret@hooks.example.com/"}]},
            "user:password@ is not sent",
        ),
        ({"to": [{f"slack:{SECRET}": "x"}]}, "slack is not known"),
        ({"to": [f"slack:{SECRET}"]}, "no mapping"),
        ({"to": [{"sns": "topic"}]}, "ARN"),
        ({"mail": "me"}, "mail is not known"),
    ],
)
def test_what_cannot_be_is_refused_without_a_secret(change, reason):
    with pytest.raises(ConfigError, match=reason) as refused:
        parse_alerts({**GIVEN, **change}, "config.yml")
    assert "config.yml" in str(refused.value)
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ConfigError, match="no JSON"):
        parse_alerts("{", "KIQBRIDGE_ALERTS")
