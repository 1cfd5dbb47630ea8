"""How old things are that should not grow old, and what is logged about them."""

import logging

from kiqbridge.engine.ages import OLD_DUE_S, OLD_JOB_S, OLD_SUSPECT_S, AgeReport, Ages, ages_of
from kiqbridge.engine.inflight.reaping import Outcome
from kiqbridge.engine.inflight.recovery import Reaped
from kiqbridge.engine.perform.running_job import RunningJob

WALL, LEASE = 1_000_000.0, 5_000.0


class Suspects:
    def __init__(self):
        self.suspects = {"mail": 2, "default": 1}
        self.suspects_since = LEASE - 7


def ages(running=(), suspects=None, earliest_due=None, last_reaped=None):
    return ages_of(
        running,
        suspects=suspects,
        earliest_due=earliest_due,
        last_reaped=last_reaped,
        wall=WALL,
        lease=LEASE,
    )


def test_where_nothing_runs_waits_or_was_recovered_nothing_is_old():
    assert ages() == Ages()
    assert ages().fields() == {"kb_oldest_job_s": "", "kb_suspects": 0, "kb_poller_lag_s": ""}
    assert ages(earliest_due=WALL + 60).poller_lag_s == 0


def test_the_oldest_counts():
    units = [RunningJob("default", b"", WALL - age) for age in (3, 60, 5)]
    reaped = Reaped(LEASE - 2, "v1:host:1:abc:1", Outcome(0, 4, 1))

    found = ages(units, Suspects(), WALL - 2.5, reaped)

    assert (found.oldest_job_s, found.suspects_s, found.poller_lag_s) == (60, 7, 2.5)
    assert found.fields() == {"kb_oldest_job_s": 60, "kb_suspects": 3, "kb_poller_lag_s": 2.5}
    assert found.last_recovery == {
        "ago_s": 2,
        "process": "v1:host:1:abc:1",
        "returned": 4,
        "suspected": 1,
        "blocked": [],
    }


def test_what_is_too_old_is_logged_once_and_when_it_is_over(caplog):
    caplog.set_level(logging.INFO)
    now = Ages()
    report = AgeReport(lambda: now)

    report.report()
    assert caplog.records == []
    now = Ages(oldest_job_s=OLD_JOB_S, suspects_s=OLD_SUSPECT_S, poller_lag_s=OLD_DUE_S)
    for _ in range(3):
        report.report()
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "WARNING"]
    caplog.clear()
    now = Ages()
    for _ in range(3):
        report.report()

    assert [record.getMessage() for record in caplog.records] == [
        "job: no longer older than 3600 s",
        "suspects: no longer older than 600 s",
        "due: no longer older than 30 s",
    ]
