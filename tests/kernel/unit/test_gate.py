"""Which jobs do not run here, or not now, and what happens with them instead."""

import random
import time

import pytest

from kiqbridge.config.config import routed_queue
from kiqbridge.config.merge import merge
from kiqbridge.engine.perform.gate import MOST_NAMES, Gate, check_route
from kiqbridge.engine.settle.ending import Refusal
from kiqbridge.errors import ConfigError

NOW = 1_700_000_000.0
JOB = {
    "retry": True,
    "queue": "default",
    "class": "Mail",
    "args": [1],
    "jid": "0123456789abcdef01234567",
    "created_at": NOW,
    "enqueued_at": NOW,
}


class Paused:
    def __init__(self, *classes):
        self.classes = frozenset(classes)


def gatekeeper(*paused, foreign_jobs="refuse", unknown_class="retry", declared=("Mail",)):
    return Gate(
        paused=Paused(*paused),
        declared=declared,
        foreign_jobs=foreign_jobs,
        unknown_class=unknown_class,
        rng=random.Random(1),
        wall_now=lambda: NOW,
    )


@pytest.mark.parametrize(
    "more",
    [{}, {"bid": None}, {"encrypt": False}, {"bid": ""}, {"expires_in": 60, "expiry": 1.0}],
)
def test_an_ordinary_job_runs(more):
    assert gatekeeper("Crawler", unknown_class="route:ruby").check(JOB | more) is None


@pytest.mark.parametrize("lock", ["unique_for", "lock_digest", "unique_digest"])
def test_a_job_with_a_lock_of_ruby_runs_and_that_is_said_once_for_its_class(lock, caplog):
    gate = gatekeeper(foreign_jobs="refuse")

    for job_class in ("Mail", "Mail", "Other"):
        assert gate.check(JOB | {"class": job_class, lock: "uniquejobs:5f4d"}) is None

    said = [each.getMessage() for each in caplog.records]
    assert [each.split(" has ")[0] for each in said] == ["class Mail", "class Other"]
    assert f"({lock}), which only Ruby releases" in said[0]


def test_a_job_of_a_feature_that_is_not_here_is_refused_with_its_name(monkeypatch):
    missing = {"of_it": "the_feature", "flow.member": "other"}
    monkeypatch.setattr("kiqbridge.seams.missing", lambda: missing)
    gate = gatekeeper(foreign_jobs="run")

    for more in ({}, {"flow": {"lock": "a"}}, {"flow": ["member"]}):
        assert gate.check(JOB | more) is None
    refusal, other = (gate.check(JOB | more) for more in ({"of_it": None}, {"flow": {"member": 1}}))

    assert "has of_it, and this worker lacks the feature the_feature" in str(refusal.error)
    assert "has flow.member, and this worker lacks the feature other" in str(other.error)


class TestPausedClasses:
    def test_their_jobs_are_put_off_by_a_minute_more_or_less(self):
        gate = gatekeeper("Mail")

        times = [gate.check(JOB).at - NOW for _ in range(200)]

        assert all(50 <= each <= 70 for each in times)
        assert max(times) - min(times) > 15

    def test_a_pause_goes_before_everything_else_and_a_change_counts_at_once(self):
        gate = gatekeeper(unknown_class="route:ruby", declared=())
        assert gate.check(JOB | {"bid": "b"}).at is None
        gate.paused.classes = frozenset({"Mail"})
        assert gate.check(JOB | {"bid": "b"}).at

    @pytest.mark.parametrize("odd", [None, 7, [], {"a": 1}])
    def test_a_class_that_is_no_text_fails_nothing_here(self, odd):
        assert gatekeeper("Mail").check(JOB | {"class": odd, "wrapped": odd}) is None


class TestForeignFeatures:
    @pytest.mark.parametrize(
        ("feature", "value", "reason"),
        [
            ("bid", "Abc123", "belongs to a batch of Sidekiq Pro"),
            ("encrypt", True, "has encrypted arguments"),
        ],
    )
    def test_refused_by_default_with_the_reason(self, feature, value, reason, caplog):
        refusal = gatekeeper().check(JOB | {feature: value})

        assert refusal.at is None
        assert refusal.queue is None
        assert str(refusal.error).startswith(f"this job {reason}")
        assert "set foreign_jobs to run or requeue" in str(refusal.error)
        [warning] = caplog.messages
        assert JOB["jid"] in warning
        assert "refused to the dead set" in warning

    def test_run_by_setting_with_one_warning_per_class(self, caplog):
        gate = gatekeeper(foreign_jobs="run")

        for job_class in ("Mail", "Mail", "Crawler"):
            assert gate.check(JOB | {"class": job_class, "bid": "b"}) is None

        assert len(caplog.messages) == 2
        assert "all others of this class run all the same" in caplog.messages[0]

    def test_put_off_for_ruby_by_setting(self, caplog):
        gate = gatekeeper(foreign_jobs="requeue")
        for _ in range(3):
            assert 50 <= gate.check(JOB | {"encrypt": True}).at - NOW <= 70
        assert len(caplog.messages) == 1

    def test_names_of_classes_do_not_fill_the_memory(self, caplog):
        gate = gatekeeper(foreign_jobs="run")

        for number in range(MOST_NAMES + 100):
            gate.check(JOB | {"class": f"C{number}", "bid": "b"})

        assert len(gate._warned) == len(caplog.messages) == MOST_NAMES


class TestRoutes:
    def test_a_class_that_is_not_declared_here_goes_to_the_other_queue(self, caplog):
        gate = gatekeeper(unknown_class="route:ruby", declared=("Nightly",))
        for more in ({"class": "Rails::Only"}, {"class": "Rails::Only"}, {"bid": "b"}):
            assert gate.check(JOB | more) == Refusal(queue="ruby")
        assert caplog.messages[0] == (
            "class Rails::Only is not declared here: its jobs are routed to queue ruby (unknown_class)"
        )
        assert len(caplog.messages) == 2
        # One without a class fails as any other.
        assert gate.check({"args": []}) is None

    def test_a_route_into_a_circle_is_refused(self):
        served = {"default", "mail"}
        for setting in ("retry", "route:ruby"):
            check_route(setting, served, source="default")
        with pytest.raises(
            ConfigError, match="routes to queue mail, which this worker serves itself"
        ):
            check_route("route:mail", served, source="KIQBRIDGE_UNKNOWN_CLASS")


class TestSettings:
    @pytest.mark.parametrize(
        ("setting", "queue"), [("retry", None), ("route:ruby", "ruby"), ("route:a:b", "a:b")]
    )
    def test_unknown_class(self, setting, queue):
        config = merge(environ={"KIQBRIDGE_UNKNOWN_CLASS": setting}, flags={})

        assert routed_queue(config.unknown_class) == queue

    @pytest.mark.parametrize("setting", ["route:", "route", "drop", "7"])
    def test_unknown_class_that_is_no_such_setting(self, setting):
        with pytest.raises(ConfigError, match="is neither retry nor route:QUEUE"):
            merge(environ={"KIQBRIDGE_UNKNOWN_CLASS": setting}, flags={})

    def test_foreign_jobs(self):
        assert merge(environ={}, flags={}).foreign_jobs == "refuse"
        assert merge(environ={"KIQBRIDGE_FOREIGN_JOBS": "RUN"}, flags={}).foreign_jobs == "run"
        with pytest.raises(
            ConfigError, match="foreign_jobs: 'x' is not one of refuse, run, requeue"
        ):
            merge(environ={"KIQBRIDGE_FOREIGN_JOBS": "x"}, flags={})


def test_the_clock_is_the_wall_s_by_default():
    gate = Gate(
        paused=Paused("Mail"),
        declared=(),
        foreign_jobs="refuse",
        unknown_class="retry",
        rng=random.Random(1),
    )

    assert abs(gate.check(JOB).at - time.time() - 60) < 11
