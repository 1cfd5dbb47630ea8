"""The doctor's rules about processes and settings: each fault gives one finding, and a good fleet none."""

import time

import pytest
import redis as redis_py
from support.doctored import beat, found, only, wrong


@pytest.fixture
def raw(good):
    with redis_py.Redis.from_url(good.url) as raw:
        raw.flushall()
        yield raw


def test_a_good_fleet_has_no_finding(good, raw):
    for name in ("py-1", "py-2"):
        beat(raw, name, queues=["default", "low"])
    for name in ("rb-1", "rb-2"):
        beat(raw, name, queues=["default", "rails"], version="7.3.2")
    beat(raw, "six", version="")  # Sidekiq 6 shows no version

    assert wrong(good.url, environ={"KIQBRIDGE_WIRE_PROFILE": "7"}) == []


def test_a_registered_process_without_a_heartbeat_is_found(good, raw):
    beat(raw)
    raw.sadd("processes", "gone:1:abc")

    finding = only(good.url, "heartbeat")

    assert finding.what.startswith("1 registered process has no heartbeat any more")
    assert "kiqbridge recover" in finding.action


def test_a_heartbeat_that_is_old_is_found(good, raw):
    beat(raw, fields={"beat": str(time.time() - 50)})

    assert "py-1:1" in only(good.url, "heartbeat").what


def test_a_process_whose_clock_is_ahead_is_found(good, raw):
    beat(raw, fields={"beat": str(time.time() + 90)})

    assert "py-1:1 by 90 s" in only(good.url, "process-clock").what


def test_a_quiet_process_is_found_when_it_is_idle(good, raw):
    identity = beat(raw, fields={"quiet": "true", "busy": "1"})
    assert wrong(good.url) == []

    raw.hset(identity, "busy", "0")

    assert only(good.url, "quiet").what == "quiet and idle: py-1:1"


def test_several_versions_are_found(good, raw):
    beat(raw, "py-1")
    beat(raw, "py-2", version="kiqbridge-0.2.0")
    assert (
        only(good.url, "versions").what
        == "several versions at work: kiqbridge-0.1.0, kiqbridge-0.2.0"
    )

    raw.flushall()
    for name, version in (("rb-1", "7.3.2"), ("rb-2", "8.0.1")):
        beat(raw, name, version=version)
    assert only(good.url, "versions").what == "several versions at work: Sidekiq 7, Sidekiq 8"


def test_an_old_ruby_process_is_found(good, raw):
    identity = beat(raw, "rb-1", version="")
    raw.hdel(identity, "rss", "rtt_us")

    assert "rb-1:1" in only(good.url, "ruby-version").what


def test_profile_8_beside_an_older_reader_is_found(good, raw):
    beat(raw, "rb-1", version="7.3.2")
    assert wrong(good.url, environ={"KIQBRIDGE_WIRE_PROFILE": "auto"}) == []

    finding = only(good.url, "wire-profile", "problem", environ={"KIQBRIDGE_WIRE_PROFILE": "8"})

    assert "rb-1:1" in finding.what


def test_slow_round_trips_are_found(good, raw):
    beat(raw, fields={"rtt_us": "80000"})

    assert only(good.url, "rtt").what == "slow round trips: py-1:1 80 ms"


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
def test_a_queue_in_two_capsules_is_found(good, raw, shown):
    beat(raw, **shown)

    assert only(good.url, "capsules").what == "in several capsules: default in py-1:1"


def test_a_queue_that_one_of_several_hosts_serves_is_found(good, raw):
    beat(raw, "py-1")
    beat(raw, "py-2", queues=["default", "reports"])

    assert only(good.url, "single-server").what == "served by one process only: reports (py-2:1)"


def test_a_fleet_that_needs_more_connections_than_there_are_is_found(good, raw):
    beat(raw, fields={"concurrency": "20000"})

    assert (
        "up to 20,010 connections, and the server takes 10,000"
        in only(good.url, "connections").what
    )


def test_a_setting_that_a_worker_refuses_is_found(good, raw):
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
def test_a_worker_must_end_before_it_is_killed(good, raw, environ, stop_timeout_s, status):
    if status == "ok":
        assert wrong(good.url, environ=environ, stop_timeout_s=stop_timeout_s) == []
        return
    finding = only(good.url, "stop-timeout", status, environ=environ, stop_timeout_s=stop_timeout_s)
    assert "--stop-timeout" in finding.action or "StopTimeout" in finding.action


def test_children_that_are_never_used_are_found(good, raw):
    environ = {"KIQBRIDGE_POOL_SIZE": "20", "KIQBRIDGE_CONCURRENCY": "5"}

    assert (
        only(good.url, "pool", environ=environ).what
        == "KIQBRIDGE_POOL_SIZE is 20, and 5 jobs run at once"
    )


@pytest.mark.parametrize(
    "info", ["", "[]", "null", '{"queues":5,"weights":"x","capsules":[1]}', '{"concurrency":"x"}']
)
def test_what_a_process_shows_may_be_anything(good, raw, info):
    identity = beat(raw)
    raw.hset(identity, mapping={"info": info, "concurrency": "x", "beat": "soon", "rtt_us": ""})

    assert "unknown" not in [each.status.value for each in found(good.url)]
