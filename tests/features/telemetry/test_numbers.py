"""The numbers of the fleet as Prometheus reads them, and of a process as each form has them."""

import json
import socket
import sys
import time
import urllib.request

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families
from support.servers import find_free_port
from support.waiting import wait_until

from kiqbridge.api import open_operator
from kiqbridge.api.rulebook import RULEBOOK
from kiqbridge.config.merge import merge
from kiqbridge.engine.numbers import ProcessNumbers
from kiqbridge.engine.settle.metrics import Measured, Metrics
from kiqbridge.errors import ConfigError
from kiqbridge.features.telemetry.catalogue import METRICS, MOST_CLASSES, MOST_QUEUES
from kiqbridge.features.telemetry.fleet import fleet_families
from kiqbridge.features.telemetry.otel import OtelPush
from kiqbridge.features.telemetry.prometheus import PrometheusPort, as_text, prometheus_text
from kiqbridge.features.telemetry.statsd_push import StatsdPush
from kiqbridge.features.telemetry.worker import (
    label_of,
    process_families,
    require_extras,
    send_zeros_for_gone,
)
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

IDENTITY = "host:1:aaa"


def text(jid, at):
    return json.dumps({"class": "Mail", "args": [], "jid": jid, "enqueued_at": at}).encode()


def parsed(raw):
    """(name, labels) → value, of the samples in a text of Prometheus."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(raw.decode())
        for sample in family.samples
    }


def numbers(*, processed=5, **classes):
    measured = classes or {"Mail": Measured(histogram={0: 2, 5: 1, 25: 1}, failed=1, ms=400_000)}
    return ProcessNumbers(
        processed=processed,
        failed=1,
        busy=2,
        concurrency=10,
        is_quiet=False,
        round_trip_s=0.0005,
        lost_threads=0,
        leads=True,
        classes=measured,
    )


def fill(redis, redis_url):
    now = time.time()
    redis.sadd("queues", "default", "mail")
    redis.lpush("queue:default", text("a", now - 30), text("b", now))
    redis.sadd("paused", "mail")
    redis.zadd("retry", {text("r", now): now - 5})
    redis.zadd("schedule", {text("s", now): now + 60})
    redis.zadd("dead", {text("d", now): now})
    redis.mset({"stat:processed": 70, "stat:failed": 7})
    for identity, labels in ((IDENTITY, ["kiqbridge"]), ("ruby:1:a", [])):
        info = {"queues": ["default"], "concurrency": 10, "labels": labels, "version": "7.3.10"}
        redis.sadd("processes", identity)
        redis.hset(
            identity, mapping={"info": json.dumps(info), "busy": 3, "beat": now, "quiet": "false"}
        )
    at = int(now) - 900
    redis.zadd("kb:missed", {f"{at} nightly": at})
    redis.zadd("kb:dead:trimmed", {"40 a": at, "2 b": at, "9 old": at - 86_400})
    redis.sadd("kb:inflight", "v2:host:1:aaa:1")
    redis.hset("kb:alive", "v2:host:1:aaa:1", f"1 {now:.3f} 60000")
    redis.hset("kb:claims:v2:host:1:aaa:1", "t", "2 default")
    redis.lpush("kb:inflight:v2:host:1:aaa:1:t:0", text("h", now))
    metrics = Metrics(Keys(), identity=IDENTITY)
    metrics.record("Mail", 10.0, False)
    metrics.record("Mail", 10.0, True)
    metrics.flush(RedisPool(redis_url).connection(), now)


def test_prometheus_gets_all_numbers_of_the_fleet(redis, redis_url, operator):
    fill(redis, redis_url)

    raw = prometheus_text(operator)
    found = parsed(raw)

    assert 29 < found.pop(("kiqbridge_queue_latency_seconds", "default")) < 60
    assert found.pop(("kiqbridge_redis_memory_bytes",)) > 0
    assert found == {
        ("kiqbridge_redis_up",): 1,
        ("kiqbridge_queue_size", "default"): 2,
        ("kiqbridge_queue_size", "mail"): 0,
        ("kiqbridge_queue_latency_seconds", "mail"): 0,
        ("kiqbridge_queue_paused", "default"): 0,
        ("kiqbridge_queue_paused", "mail"): 1,
        ("kiqbridge_jobs_enqueued",): 2,
        ("kiqbridge_jobs_scheduled",): 1,
        ("kiqbridge_jobs_retrying",): 1,
        ("kiqbridge_jobs_overdue",): 1,
        ("kiqbridge_jobs_dead",): 1,
        ("kiqbridge_jobs_dead_limit",): 9999,
        ("kiqbridge_jobs_dead_dropped",): 42,
        ("kiqbridge_jobs_in_flight",): 1,
        ("kiqbridge_jobs_orphaned",): 0,
        ("kiqbridge_jobs_suspect",): 0,
        ("kiqbridge_jobs_processed_total",): 70,
        ("kiqbridge_jobs_failed_total",): 7,
        ("kiqbridge_processes", "python"): 1,
        ("kiqbridge_processes", "ruby"): 1,
        ("kiqbridge_processes_quiet",): 0,
        ("kiqbridge_busy",): 6,
        ("kiqbridge_concurrency",): 20,
        ("kiqbridge_missed_ticks",): 1,
        ("kiqbridge_missed_ticks_lost",): 1,
        ("kiqbridge_problems", "critical"): 2,
        ("kiqbridge_problems", "warning"): 2,
        **{
            ("kiqbridge_findings", kind): int(
                kind in ("missed-ticks", "paused", "deaths", "dead-full")
            )
            for kind in [each.id for each in RULEBOOK]
        },
        ("kiqbridge_class_recent_executions", "Mail"): 2,
        ("kiqbridge_class_recent_failures", "Mail"): 1,
        ("kiqbridge_redis_memory_limit_bytes",): 0,
    }
    for metric in METRICS:
        if metric.scope == "fleet":
            assert (
                f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
                in raw.decode()
            )


def test_where_redis_is_away_that_alone_is_shown(caplog):
    away = open_operator(f"redis://127.0.0.1:{find_free_port()}/0", by="ann")

    assert parsed(prometheus_text(away)) == {("kiqbridge_redis_up",): 0}
    assert "no numbers for Prometheus: Redis at" in caplog.text


def test_however_many_queues_and_classes_there_are_the_series_are_bounded(
    redis, redis_url, operator
):
    now = time.time()
    for number in range(MOST_QUEUES + 50):
        redis.sadd("queues", f"q{number}")
        redis.lpush(f"queue:q{number}", *[text("a", now - number)] * (number + 1))
    longest = f"q{MOST_QUEUES + 49}"
    redis.rpush(f"queue:{longest}", text("a", now + 60))  # a sender's clock is ahead
    metrics = Metrics(Keys(), identity=IDENTITY)
    for number in range(MOST_CLASSES + 20):
        metrics.record(f"Job{number}", 10.0, False)
    metrics.flush(RedisPool(redis_url).connection(), now)

    found = parsed(prometheus_text(operator))

    queues = [key for key in found if key[0] == "kiqbridge_queue_size"]
    classes = [key for key in found if key[0] == "kiqbridge_class_recent_executions"]
    assert (len(queues), len(classes)) == (MOST_QUEUES + 1, MOST_CLASSES + 1)
    assert found["kiqbridge_queue_size", "others"] == sum(range(1, 51))
    assert sum(found[key] for key in queues) == found["kiqbridge_jobs_enqueued",]
    assert 48 < found["kiqbridge_queue_latency_seconds", "others"] < 80
    assert found["kiqbridge_queue_latency_seconds", longest] == 0
    assert found["kiqbridge_class_recent_executions", "others"] == 20


def test_any_bytes_may_be_a_name(redis, operator):
    redis.sadd("queues", b'\xff"\n\\')

    assert ("kiqbridge_queue_size", '\\xff"\n\\') in parsed(prometheus_text(operator))


def test_a_process_shows_its_durations_as_a_histogram():
    found = parsed(as_text(lambda: process_families(IDENTITY, numbers())))

    name = "kiqbridge_worker_job_duration_seconds"
    assert found[f"{name}_bucket", "Mail", "0.02"] == 2
    assert found[f"{name}_bucket", "Mail", "0.1"] == 2
    assert found[f"{name}_bucket", "Mail", "0.15"] == 3
    assert found[f"{name}_bucket", "Mail", "335"] == 3
    assert found[f"{name}_bucket", "Mail", "+Inf"] == found[f"{name}_count", "Mail"] == 4
    assert found[f"{name}_sum", "Mail"] == 400
    assert found["kiqbridge_worker_class_failed_total", "Mail"] == 1
    assert found["kiqbridge_worker_jobs_processed_total",] == 5
    assert found["kiqbridge_worker_redis_round_trip_seconds",] == 0.0005


def test_a_class_keeps_its_series_so_that_no_counter_falls(monkeypatch):
    monkeypatch.setattr("kiqbridge.features.telemetry.worker._named", {})
    first = [label_of(f"Job{number}") for number in range(MOST_CLASSES + 5)]

    assert first[MOST_CLASSES:] == ["others"] * 5
    assert [label_of(f"Job{number}") for number in range(MOST_CLASSES + 5)] == first


def scraped(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return parsed(answer.read())


def test_a_port_that_is_taken_is_logged_and_taken_when_it_is_free(monkeypatch, caplog):
    monkeypatch.setattr("kiqbridge.features.telemetry.prometheus.AGAIN_S", 0.05)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        served = PrometheusPort(
            lambda: process_families(IDENTITY, numbers()), host="127.0.0.1", port=port
        )
        served.start()
        wait_until(lambda: "cannot be taken" in caplog.text)
        assert served.port is None
    wait_until(lambda: served.port == port)

    assert scraped(port)["kiqbridge_worker_busy",] == 2
    served._server.shutdown()
    served._close()
    assert caplog.text.count("cannot be taken") == 1


@pytest.fixture
def statsd():
    """A socket, and what came to it as lines."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)

        def lines(count):
            found = []
            while len(found) < count:
                found += receiver.recv(65_536).decode().splitlines()
            return found

        receiver_address = f"127.0.0.1:{receiver.getsockname()[1]}"
        yield receiver_address, lines


def test_statsd_gets_gauges_and_what_was_added_to_counters(statsd):
    address, lines = statsd
    push = StatsdPush(address)

    push.send(process_families("host.example:1:aaa", numbers()))
    first = lines(10)
    push.send(process_families("host.example:1:aaa", numbers(processed=8)))
    second = lines(6)
    push.close()

    assert "kiqbridge.worker_busy:2|g" in first
    assert "kiqbridge.worker_jobs_processed:5|c" in first
    assert "kiqbridge.worker_job_duration_seconds_count.Mail:4|c" in first
    assert "kiqbridge.worker_job_duration_seconds_ms.Mail:400000|c" in first
    assert "kiqbridge.worker_redis_round_trip_seconds:0.0005|g" in first
    assert any(line.startswith("kiqbridge.worker_info.host_example_1_aaa.") for line in first)
    assert [line for line in second if line.endswith("|c")] == [
        "kiqbridge.worker_jobs_processed:3|c"
    ]


def test_statsd_gets_those_of_the_fleet(redis, redis_url, operator, statsd):
    address, lines = statsd
    fill(redis, redis_url)

    push = StatsdPush(address)
    push.send(fleet_families(operator))
    push.close()

    found = lines(28)
    assert "kiqbridge.queue_size.default:2|g" in found
    assert "kiqbridge.jobs_processed:70|c" in found
    assert "kiqbridge.processes.python:1|g" in found


def test_statsd_gets_0_once_for_what_is_gone_from_the_next_leader_too(
    redis, redis_url, operator, statsd
):
    address, lines = statsd
    fill(redis, redis_url)

    def turn():
        push = StatsdPush(address)  # each by another leader
        send_zeros_for_gone(push, operator, push.send(fleet_families(operator)))
        push.send_zeros(["end"])
        push.close()
        found = []
        while "kiqbridge.end:0|g" not in found:
            found += lines(1)
        return [line for line in found if ".mail:" in line]

    assert "kiqbridge.queue_paused.mail:1|g" in turn()
    redis.srem("queues", "mail")
    redis.srem("paused", "mail")
    assert turn() == [
        "kiqbridge.queue_latency_seconds.mail:0|g",
        "kiqbridge.queue_paused.mail:0|g",
        "kiqbridge.queue_size.mail:0|g",
    ]
    assert turn() == []


def test_opentelemetry_asks_redis_once_for_all_instruments(redis, redis_url, operator):
    fill(redis, redis_url)
    asked = []

    def families():
        asked.append(1)
        return [*process_families(IDENTITY, numbers()), *fleet_families(operator)]

    reader = InMemoryMetricReader()
    push = OtelPush(families, identity=IDENTITY, reader=reader)
    collected = [reader.get_metrics_data() for _ in range(2)]
    push.stop()

    assert len(asked) == 2
    [resource] = collected[1].resource_metrics
    assert resource.resource.attributes["service.name"] == "kiqbridge"
    assert resource.resource.attributes["service.instance.id"] == IDENTITY
    metrics = {each.name: each for scope in resource.scope_metrics for each in scope.metrics}
    values = {
        (name, *point.attributes.values()): point.value
        for name, metric in metrics.items()
        for point in metric.data.data_points
    }
    assert values["kiqbridge_queue_size", "default"] == 2
    assert values["kiqbridge_jobs_processed",] == 70
    assert values["kiqbridge_worker_job_duration_seconds_count", "Mail"] == 4
    assert values["kiqbridge_worker_job_duration_seconds_sum", "Mail"] == 400
    assert metrics["kiqbridge_jobs_processed"].data.is_monotonic
    known = {metric.name.removesuffix("_total") for metric in METRICS if metric.kind != "histogram"}
    assert known <= metrics.keys()


@pytest.mark.parametrize(
    ("setting", "value", "library", "extra"),
    [
        ("prometheus_port", "9394", "prometheus_client", "prometheus"),
        ("statsd", "127.0.0.1:8125", "statsd", "statsd"),
        ("opentelemetry", "true", "opentelemetry", "opentelemetry"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, setting, value, library, extra):
    config = merge(environ={f"KIQBRIDGE_{setting.upper()}": value}, flags={})
    require_extras(config)
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(ConfigError, match=rf"pip install 'kiqbridge\[{extra}\]'"):
        require_extras(config)


@pytest.mark.parametrize("value", ["localhost", ":8125", "host:0", "host:70000", "host:x"])
def test_an_address_of_statsd_that_is_none_is_refused(value):
    with pytest.raises(ConfigError, match="is not HOST:PORT"):
        merge(environ={"KIQBRIDGE_STATSD": value}, flags={})
