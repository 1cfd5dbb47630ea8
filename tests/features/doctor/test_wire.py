"""The doctor's rules about jobs in queues and sets: each fault gives one finding, and good jobs none."""

import json
import time

import pytest
import redis as redis_py
from support.doctored import beat, enqueue, found, job, only, wrong

from kiqbridge.api.wording import listed
from kiqbridge.features.doctor import system as sampling
from kiqbridge.features.doctor.finding import LONGEST, printable
from kiqbridge.features.doctor.wire import namespace_of

HOUR_S = 3600


@pytest.fixture
def raw(good):
    """Empty, but for a worker that serves the queue `default` and declares the class `Mail`."""
    with redis_py.Redis.from_url(good.url) as raw:
        raw.flushall()
        beat(raw)
        yield raw


def test_good_jobs_have_no_finding(good, raw):
    enqueue(raw, job(enqueued_at=time.time()), job(created_at=int(time.time() * 1000)))
    raw.zadd("retry", {job(error_class="OSError", error_message="x"): time.time() + HOUR_S})
    raw.zadd("schedule", {job(): time.time() + HOUR_S})
    raw.zadd("dead", {job(error_class="OSError"): time.time() - 2 * HOUR_S})

    assert wrong(good.url) == []
    sizes = [each.what for each in found(good.url, areas=("wire",)) if each.rule == "payload"]
    assert sizes == ["no unreadable job; all 5 jobs were looked at"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"{", "The text is no JSON object in queue default (1)"),
        (b'["a"]', "The text is no JSON object"),
        (b'{"class":"Mail","args":[],"jid":"\xff"}', "The text is no UTF-8"),
        (job(**{"class": ...}, created_at=1.5), "class is missing"),
        (job(args={}, created_at=1.5), "args is no list"),
        (job(jid=..., created_at=1.5), "jid is missing"),
    ],
)
def test_a_text_that_nobody_can_perform_is_found(good, raw, text, what):
    enqueue(raw, text)

    assert what in only(good.url, "payload", "problem", areas=("wire",)).what


def test_a_large_job_is_found(good, raw):
    enqueue(raw, job(args=["x" * 200_000]))

    finding = only(good.url, "payload-size")

    assert "1 large job: 200 kB (Mail in queue default)" in finding.what
    assert "S3" in finding.do
    small = {"KIQBRIDGE_MAX_PAYLOAD_BYTES": "150000"}
    only(good.url, "payload-size", "problem", environ=small)


@pytest.mark.parametrize("member", ["created_at", "enqueued_at", "failed_at"])
def test_integers_of_seconds_are_found(good, raw, member):
    raw.zadd("retry", {job(**{member: int(time.time())}): time.time() + HOUR_S})

    finding = only(good.url, "timestamps")

    assert f"{member} of Mail (1)" in finding.what


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"bid": "b4a577edbccf1d"}, "foreign-batch"),
        ({"encrypt": True}, "foreign-encryption"),
        ({"unique_for": 60}, "foreign-lock"),
        ({"lock_digest": "uniquejobs:5f4d"}, "foreign-lock"),
        ({"unique_digest": "uniquejobs:5f4d"}, "foreign-lock"),
    ],
)
def test_what_only_ruby_can_honour_is_found_where_python_serves(good, raw, more, rule):
    beat(raw, "rb-1", queues=["rails"], version="7.3.2")
    enqueue(raw, job(queue="rails", **more), queue="rails")
    assert wrong(good.url, areas=("wire",)) == []

    enqueue(raw, job(**more))

    assert "Mail in queue default (1)" in only(good.url, rule, "problem", areas=("wire",)).what


def test_jobs_without_any_process_are_one_finding(good, raw):
    raw.flushall()
    enqueue(raw, job())
    enqueue(raw, job(), queue="mailers")

    finding = only(good.url, "no-worker", "problem")

    assert finding.what.startswith("No worker lives, and 2 jobs wait in queues")


def test_a_class_that_no_process_declares_is_found(good, raw):
    enqueue(raw, job(), job(**{"class": "Male"}))

    finding = only(good.url, "unknown-class", "problem")

    assert "Male in queue default (1)" in finding.what
    assert "-r" in finding.do


@pytest.mark.parametrize("other", [{"version": "7.3.2"}, {"classes": None}, {"classes": ["Male"]}])
def test_a_class_that_another_process_may_know_is_not_found(good, raw, other):
    beat(raw, "other", **other)
    enqueue(raw, job(**{"class": "Male"}))

    assert "unknown-class" not in [each.rule for each in wrong(good.url)]


def test_a_retry_whose_class_was_not_found_is_found(good, raw):
    raw.delete("py-1:1:abcdef")
    beat(raw, classes=None)  # as an older worker, which publishes no classes
    message = "uninitialized constant Male; is its module loaded with -r?"
    text = job(**{"class": "Male"}, error_class="NameError", error_message=message)
    raw.zadd("retry", {text: time.time() + HOUR_S})

    assert "Male in retry (1)" in only(good.url, "unknown-class", "problem").what


def test_what_rails_wraps_counts_as_its_own_class(good, raw):
    wrapper = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"
    enqueue(raw, job(**{"class": wrapper}, wrapped="x", args=[{"job_class": "Mail"}]))

    assert wrong(good.url) == []


def test_jobs_of_another_namespace_where_nobody_lives_are_found(good, raw):
    enqueue(raw, job(), prefix="shop:")

    finding = only(good.url, "namespace")

    assert (
        "queues under shop (1 queue), where no process lives; no namespace is configured"
        in finding.what
    )
    raw.sadd("shop:processes", "x:1:y")
    assert wrong(good.url) == []


def test_jobs_without_a_namespace_are_found_from_within_one(good, raw):
    raw.flushall()
    enqueue(raw, job())

    finding = only(good.url, "namespace", namespace="shop")

    assert "queues under no namespace (1 queue)" in finding.what


@pytest.mark.parametrize(
    ("key", "space"),
    [
        (b"queue:default", ""),
        (b"shop:queue:default", "shop"),
        (b"a:b:queue:default", "a:b"),
        (b"queue:a:queue:b", ""),
        (b"kb:suspects:queue:x", None),
        (b"myqueue:default", None),
        (b"queue:", None),
    ],
)
def test_the_namespace_of_a_key(key, space):
    assert namespace_of(key) == space


def test_milliseconds_in_the_place_of_seconds_are_found(good, raw):
    raw.zadd("schedule", {job(): time.time() * 1000})

    assert "looks like milliseconds" in only(good.url, "far-future").what


def test_a_schedule_that_no_living_worker_declares_is_found(good, raw):
    nightly = {
        "expression": "rate(1 day)",
        "jobs": [{"class": "Mail", "args": []}],
        "origin": "code",
    }
    raw.hset("kb:schedules", mapping={name: json.dumps(nightly) for name in ("gone", "kept")})
    for worker, at, names in (("dead", 91, ["gone", "kept"]), ("lives", 1, ["kept"])):
        about = {"at": time.time() - at, "apps": {"shop": dict.fromkeys(names, "digest")}}
        raw.hset("kb:declared", f"worker {worker}", json.dumps(about))

    assert only(good.url, "undeclared-schedule").what == "gone"


def test_a_schedule_of_two_applications_is_found(good, raw):
    refusal = {"at": time.time() - 5, "app": "mail", "by": "host:1:b", "owner": "shop"}
    raw.hset("kb:declared", "refused nightly", json.dumps(refusal))

    found = only(good.url, "schedule-of-two-applications", "problem").what

    assert found.startswith("nightly of shop is declared by mail as well (host:1:b, ")


def test_a_long_queue_is_looked_at_in_part(good, raw):
    enqueue(raw, *(job(jid=f"{number}") for number in range(5_000)))

    [finding] = [each for each in found(good.url, areas=("wire",)) if each.rule == "payload"]

    assert (
        finding.what
        == f"no unreadable job; {sampling.MOST_OF_A_PLACE} of 5,000 jobs were looked at"
    )


def test_large_jobs_are_not_all_read(good, raw, monkeypatch):
    monkeypatch.setattr(sampling, "MOST_BYTES", 3_000_000)
    enqueue(raw, *(job(jid=f"{number}", args=["x" * 90_000]) for number in range(150)))

    [finding] = [each for each in found(good.url, areas=("wire",)) if each.rule == "payload"]

    assert finding.what == "no unreadable job; 40 of 150 jobs were looked at"


def test_hostile_names_are_one_printable_line(good, raw):
    enqueue(raw, job(**{"class": "\x1b[2J\u202eevil\nname" + "x" * 500}), queue="\x07bell")

    findings = wrong(good.url)

    assert {each.rule for each in findings} == {"unserved-queue"}
    assert all(each.what.isprintable() for each in findings)
    assert printable("\x1b" * 200).startswith("\\x1b")
    assert len(printable("a" * 200)) == LONGEST + 1
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


@pytest.fixture
def bare(good):
    with redis_py.Redis.from_url(good.url) as bare:
        bare.flushall()
        yield bare


def test_a_good_fleet_has_no_finding(good, bare):
    for name in ("py-1", "py-2"):
        beat(bare, name, queues=["default", "low"])
    for name in ("rb-1", "rb-2"):
        beat(bare, name, queues=["default", "rails"], version="7.3.2")
    beat(bare, "six", version="")  # Sidekiq 6 shows no version

    assert wrong(good.url, environ={"KIQBRIDGE_WIRE_PROFILE": "7"}) == []


def test_a_registered_process_without_a_heartbeat_is_found(good, bare):
    beat(bare)
    bare.sadd("processes", "gone:1:abc")

    finding = only(good.url, "heartbeat")

    assert finding.what.startswith("1 registered process has no heartbeat any more")
    assert "kiqbridge recover" in finding.do


@pytest.mark.parametrize(
    ("shown", "rule", "what"),
    [
        (lambda: {"beat": str(time.time() + 90)}, "process-clock", "py-1:1 90 s ahead"),
        (lambda: {"beat": str(time.time() - 300)}, "process-clock", "py-1:1 300 s behind"),
        (lambda: {"rtt_us": "80000"}, "rtt", "slow round trips: py-1:1 80 ms"),
        (
            lambda: {"concurrency": "20000"},
            "connections",
            "up to 20,010 connections, and the server takes 10,000",
        ),
    ],
)
def test_what_a_process_shows_of_itself_is_judged(good, bare, shown, rule, what):
    beat(bare, fields=shown())

    assert what in only(good.url, rule).what


def test_a_late_heartbeat_is_found_whatever_its_clock_says(good, bare):
    beat(bare, silent_s=50)
    assert "the last one of py-1:1:abcdef came 50 s ago" in only(good.url, "heartbeat").what

    beat(bare, silent_s=50, fields={"beat": str(time.time())})
    assert {each.rule for each in wrong(good.url)} == {"heartbeat", "process-clock"}


def test_a_quiet_process_is_found_when_it_is_idle(good, bare):
    identity = beat(bare, fields={"quiet": "true", "busy": "1"})
    assert wrong(good.url) == []

    bare.hset(identity, "busy", "0")

    assert only(good.url, "quiet").what == "quiet and idle: py-1:1"


def test_several_versions_are_found(good, bare):
    beat(bare, "py-1")
    beat(bare, "py-2", version="kiqbridge-0.2.0")
    assert (
        only(good.url, "versions").what
        == "several versions at work: kiqbridge-0.1.0, kiqbridge-0.2.0"
    )

    bare.flushall()
    for name, version in (("rb-1", "7.3.2"), ("rb-2", "8.0.1")):
        beat(bare, name, version=version)
    assert only(good.url, "versions").what == "several versions at work: Sidekiq 7, Sidekiq 8"


def test_an_old_ruby_process_is_found(good, bare):
    identity = beat(bare, "rb-1", version="")
    bare.hdel(identity, "rss", "rtt_us")

    assert "rb-1:1" in only(good.url, "ruby-version").what


def test_profile_8_beside_an_older_reader_is_found(good, bare):
    beat(bare, "rb-1", version="7.3.2")
    assert wrong(good.url, environ={"KIQBRIDGE_WIRE_PROFILE": "auto"}) == []

    finding = only(good.url, "wire-profile", "problem", environ={"KIQBRIDGE_WIRE_PROFILE": "8"})

    assert "rb-1:1" in finding.what


@pytest.mark.parametrize(
    "shown",
    [
        {"weights": [{"default": 0}, {"default": 0, "low": 0}]},
        {
            "capsules": {
                "default": {"concurrency": 5, "mode": "strict", "weights": {"default": 0}},
                "more": {"concurrency": 1, "mode": "strict", "weights": {"default": 0}},
            }
        },
    ],
)
def test_a_queue_in_two_capsules_is_found(good, bare, shown):
    beat(bare, **shown)

    assert only(good.url, "capsules").what == "in several capsules: default in py-1:1"


def test_a_queue_that_one_of_several_hosts_serves_is_found(good, bare):
    beat(bare, "py-1")
    beat(bare, "py-2", queues=["default", "reports"])

    assert only(good.url, "single-server").what == "served by one process only: reports (py-2:1)"


def test_a_setting_that_a_worker_refuses_is_found(good, bare):
    finding = only(good.url, "settings", "problem", environ={"KIQBRIDGE_CONCURRENCY": "many"})

    assert "concurrency" in finding.what


@pytest.mark.parametrize(
    ("environ", "stop_timeout_s", "status"),
    [
        ({}, None, "ok"),
        ({"KIQBRIDGE_TIMEOUT_S": "60"}, None, "ok"),
        ({"KIQBRIDGE_TIMEOUT_S": "60"}, 60, "problem"),
        ({"KIQBRIDGE_TIMEOUT_S": "50"}, 60, "ok"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, None, "ok"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KIQBRIDGE_TIMEOUT_S": "45"}, None, "unknown"),
        ({"INVOCATION_ID": "x", "KIQBRIDGE_TIMEOUT_S": "110"}, 120, "ok"),
        ({"ECS_CONTAINER_METADATA_URI_V4": "x", "KIQBRIDGE_TIMEOUT_S": "118"}, None, "problem"),
        ({"ECS_CONTAINER_METADATA_URI_V4": "x", "KIQBRIDGE_TIMEOUT_S": "110"}, None, "unknown"),
    ],
)
def test_a_worker_must_end_before_it_is_killed(good, bare, environ, stop_timeout_s, status):
    if status == "ok":
        assert wrong(good.url, environ=environ, stop_timeout_s=stop_timeout_s) == []
        return
    finding = only(good.url, "stop-timeout", status, environ=environ, stop_timeout_s=stop_timeout_s)
    assert "--stop-timeout" in finding.do or "StopTimeout" in finding.do


def test_children_that_are_never_used_are_found(good, bare):
    environ = {"KIQBRIDGE_POOL_SIZE": "20", "KIQBRIDGE_CONCURRENCY": "5"}

    assert (
        only(good.url, "pool", environ=environ).what
        == "KIQBRIDGE_POOL_SIZE is 20, and 5 jobs run at once"
    )


@pytest.mark.parametrize(
    "info", ["", "[]", "null", '{"queues":5,"weights":"x","capsules":[1]}', '{"concurrency":"x"}']
)
def test_what_a_process_shows_may_be_anything(good, bare, info):
    identity = beat(bare)
    bare.hset(identity, mapping={"info": info, "concurrency": "x", "beat": "soon", "rtt_us": ""})

    assert "unknown" not in [each.status.value for each in found(good.url)]
