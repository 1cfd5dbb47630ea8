"""`kiqbridge.api` reads what Sidekiq 7, Sidekiq 8 and our workers measured, each execution once (protocol §12)."""

import calendar
import json
import time

import pytest
from support.vectors import FILES, of_kind, put_state

from kiqbridge.api import job_metrics, top_jobs
from kiqbridge.engine.settle.metrics import Metrics
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

NOW = calendar.timegm((2026, 2, 3, 8, 7, 30))
SEVEN, EIGHT, TEN = "j|20260203|8:7", "j|260203|8:07", "j|260203|8:0"


def mark(redis, label, at):
    day, minute = (
        time.strftime(form, time.gmtime(at)) for form in ("%Y%m%d-marks", "%FT%H:%M:00Z")
    )
    redis.hset(day, minute, label)


def measure(redis_url, forms="both", at=NOW, identity="host:1:aaa", **milliseconds):
    metrics = Metrics(Keys(), identity=identity, forms=forms)
    for name, durations in milliseconds.items():
        for each in durations:
            metrics.record(name, each or 1.0, each is None)
    metrics.flush(RedisPool(redis_url).connection(), at)


def lives(redis, identity, version, labels=()):
    redis.sadd("processes", identity)
    info = {"version": version, "labels": list(labels), "hostname": "h", "queues": ["default"]}
    redis.hset(identity, mapping={"info": json.dumps(info), "busy": 0, "beat": NOW})


def counted(each):
    return each.executions, each.failures, each.ms


@pytest.mark.parametrize("minutes", [1, 60, 480, 5000])
def test_a_worker_that_writes_both_forms_counts_once(redis, redis_url, operator, minutes):
    measure(redis_url, Mail=[100.0, 300.0, None], Report=[9000.0])

    found = top_jobs(minutes, operator=operator, now=NOW)

    assert list(found.classes) == ["Report", "Mail"]  # the one that took more time first
    assert counted(found.classes["Mail"].total) == (3, 1, 400)
    assert found.classes["Mail"].total.average_ms == 200.0
    assert list(found.classes["Mail"].series) == [found.buckets[-1]] == [NOW - 30.0]
    assert len(found.buckets) == min(minutes, 480)


@pytest.mark.parametrize("forms", ["7", "8"])
def test_a_fleet_of_one_version_is_read_in_minutes_and_hours(redis, redis_url, operator, forms):
    measure(redis_url, forms, Mail=[100.0], at=NOW - 3600)
    measure(redis_url, forms, Mail=[50.0], identity="host:2:bbb")

    by_minute = top_jobs(120, operator=operator, now=NOW)
    by_ten = top_jobs(hours=2, operator=operator, now=NOW)

    assert counted(by_minute.classes["Mail"].total) == (2, 0, 150)
    assert counted(by_ten.classes["Mail"].total) == (2, 0, 150)
    assert by_ten.bucket_s == 600
    assert list(by_ten.classes["Mail"].series) == [NOW - 450 - 3600.0, NOW - 450.0]


def test_three_days_are_read_by_ten_minutes(redis, redis_url, operator):
    measure(redis_url, Mail=[100.0], at=NOW - 71 * 3600)

    assert counted(top_jobs(hours=500, operator=operator, now=NOW).classes["Mail"].total) == (
        1,
        0,
        100,
    )
    assert top_jobs(480, operator=operator, now=NOW).classes == {}


def test_ruby_of_both_versions_without_ours_is_added_up(redis, redis_url, operator):
    lives(redis, "seven:1:a", "7.3.10")
    lives(redis, "eight:1:a", "8.1.7")
    measure(redis_url, "7", Mail=[100.0, 40.0])
    measure(redis_url, "8", Mail=[10.0], identity="host:2:bbb")

    assert counted(top_jobs(operator=operator, now=NOW).classes["Mail"].total) == (3, 0, 150)
    found = job_metrics("Mail", operator=operator, now=NOW)
    assert counted(found.counts.total) == (3, 0, 150)
    assert found.histogram.count == 3


@pytest.mark.parametrize("version", ["7", "8"])
def test_ruby_of_one_version_beside_ours_holds_what_ours_wrote(redis, redis_url, operator, version):
    lives(redis, "ruby:1:a", f"{version}.1.0")
    lives(redis, "ours:1:a", "kiqbridge-1.0.0", labels=["kiqbridge"])
    measure(redis_url, Mail=[100.0])
    measure(redis_url, version, Mail=[10.0, None], identity="host:2:bbb")

    assert counted(top_jobs(operator=operator, now=NOW).classes["Mail"].total) == (3, 1, 110)
    found = job_metrics("Mail", operator=operator, now=NOW)
    assert counted(found.counts.total) == (3, 1, 110)
    assert found.histogram.count == 2


def test_one_class_has_durations_and_percentiles(redis, redis_url, operator):
    measure(redis_url, Mail=[25.0] * 90 + [400.0] * 9 + [600_000.0], at=NOW - 120)
    measure(redis_url, Mail=[25.0], identity="host:2:bbb")

    found = job_metrics("Mail", 5, operator=operator, now=NOW)

    assert {at: each.executions for at, each in found.counts.series.items()} == {
        NOW - 150.0: 100,
        NOW - 30.0: 1,
    }
    assert found.histogram.counts[1] == 91
    assert 20 <= found.histogram.p50 < 30
    assert 335 <= found.histogram.p95 < 500
    assert found.histogram.percentile(1) == 335_000  # at least that


def test_a_class_that_never_ran_has_nothing(redis, operator):
    found = job_metrics("Unknown", operator=operator, now=NOW)

    assert counted(found.counts.total) == (0, 0, 0)
    assert found.counts.total.average_ms is None
    assert found.histogram.p99 is None


def test_deployments_within_the_span_are_marked(redis, operator):
    for label, at in (("old", NOW - 7200), ("v7", NOW - 600), ("v8", NOW)):
        mark(redis, label, at)
    redis.hset("20260203-marks", "not a time", "odd")

    expected = {NOW - 630.0: "v7", NOW - 30.0: "v8"}
    assert top_jobs(operator=operator, now=NOW).marks == expected
    assert job_metrics("Mail", operator=operator, now=NOW).marks == expected


def test_a_span_over_midnight_has_marks_and_counts_of_both_days(redis, redis_url, operator):
    midnight = calendar.timegm((2026, 2, 3, 0, 0, 0))
    for at, identity in ((midnight - 60, "a:1:a"), (midnight + 60, "b:1:b")):
        mark(redis, f"at {at}", at)
        measure(redis_url, Mail=[10.0], at=at, identity=identity)

    found = top_jobs(10, operator=operator, now=midnight + 90)

    assert list(found.marks) == [midnight - 60.0, midnight + 60.0]
    assert list(found.classes["Mail"].series) == [midnight - 60.0, midnight + 60.0]


def test_names_and_numbers_that_nobody_should_have_written_do_no_harm(redis, operator):
    redis.hset(EIGHT, mapping={"A|B|p": 2, "no separator": 1, b"\xff|p": 1, "C|p": "x", "D|zz": 1})
    redis.set("h|C-3-8:7", b"\x00\x01\x02")
    redis.set("h|A-3-8:7", b"\x00\x01" * 40)

    found = top_jobs(operator=operator, now=NOW)

    assert found.classes["A|B"].total.executions == 2
    assert found.classes["\udcff"].total.executions == 1
    assert job_metrics("C", operator=operator, now=NOW).histogram.counts[:2] == (1, 0x200)
    assert job_metrics("A", operator=operator, now=NOW).histogram.count == 26


@pytest.mark.parametrize(("file", "name"), of_kind("metrics"))
def test_sidekiqs_recorded_readers_and_ours_read_the_same(file, name, redis, operator):
    operation = FILES[file][name]
    put_state(redis, operation["state"])
    now = operation["now"]
    read = operation["read"]["8.1.7"]["metrics"]

    minutes, hours = (
        top_jobs(operator=operator, now=now),
        top_jobs(hours=24, operator=operator, now=now),
    )
    one = job_metrics("PyJob", operator=operator, now=now)

    for theirs, ours in ((read["minutes"], minutes), (read["hours"], hours)):
        assert theirs.keys() == ours.classes.keys()
        totals = theirs["PyJob"]["totals"]
        assert counted(ours.classes["PyJob"].total) == (totals["p"], totals["f"], totals["ms"])
        assert [calendar.timegm((2026, 11, 20, 11, 40, 0))] == list(ours.classes["PyJob"].series)
        assert ours.classes["PyJob"].total.average_ms == totals["ms"] / (totals["p"] - totals["f"])
    [histogram] = read["for_job"]["hist"].values()
    assert list(one.histogram.counts) == histogram[::-1]


def test_a_page_of_an_hour_is_one_round_trip(redis, redis_url, operator, trips):
    measure(redis_url, Mail=[25.0])

    top_jobs(operator=operator, now=NOW)
    job_metrics("Mail", operator=operator, now=NOW)

    assert trips == [121, 123]
