"""A real worker reports its numbers to Prometheus, StatsD and OpenTelemetry, and works whoever is away."""

import socket
import urllib.request
from contextlib import contextmanager

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from prometheus_client.parser import text_string_to_metric_families
from support.http_endpoint import body_of, http_endpoint, reply
from support.servers import find_free_port, find_two_free_ports
from support.waiting import wait_until

pytestmark = pytest.mark.slow

JOBS = """
from kiqbridge import job

@job(retry=False)
def reported(fails):
    if fails:
        raise ValueError("as asked")
"""


FLAGS = ("-c", "2", "-t", "1")
ENV = {"KIQBRIDGE_BEAT_S": "0.2", "KIQBRIDGE_METRICS": "off"}


def scraped(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(answer.read().decode())
            for sample in family.samples
        }


def perform(client, redis):
    for fails in (False, False, True):
        client.push({"class": "reported", "args": [fails]})
    wait_until(lambda: redis.get("stat:processed") == b"3")


@contextmanager
def collector():
    """Takes what comes over OTLP/HTTP; yields its address and metric → values of all that came."""
    received = {}

    def answer(request):
        message = ExportMetricsServiceRequest()
        message.ParseFromString(body_of(request))
        for resource in message.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = (metric.sum if metric.HasField("sum") else metric.gauge).data_points
                    values = [each.as_int or each.as_double for each in points]
                    received.setdefault(metric.name, []).extend(values)
        reply(request, 200)

    with http_endpoint(answer) as port:
        yield f"http://127.0.0.1:{port}/v1/metrics", received


def test_all_three_get_what_a_worker_does(start, redis, client):
    port = find_free_port()
    with collector() as (endpoint, received), socket.socket(type=socket.SOCK_DGRAM) as statsd:
        statsd.bind(("127.0.0.1", 0))
        statsd.settimeout(10)
        worker = start(
            KIQBRIDGE_PROMETHEUS_PORT=str(port),
            KIQBRIDGE_STATSD=f"127.0.0.1:{statsd.getsockname()[1]}",
            KIQBRIDGE_OPENTELEMETRY="true",
            OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=endpoint,
            OTEL_METRIC_EXPORT_INTERVAL="200",
        )
        perform(client, redis)

        wait_until(lambda: scraped(port)["kiqbridge_worker_jobs_processed_total",] == 3)
        found = scraped(port)
        assert found["kiqbridge_worker_jobs_failed_total",] == 1
        assert found["kiqbridge_worker_concurrency",] == 2
        assert found["kiqbridge_worker_job_duration_seconds_count", "reported"] == 2
        assert found["kiqbridge_worker_class_failed_total", "reported"] == 1
        assert found["kiqbridge_worker_redis_round_trip_seconds",] > 0
        assert found["process_resident_memory_bytes",] > 0
        wait_until(lambda: 3 in received.get("kiqbridge_worker_jobs_processed", ()))
        # Those of the fleet come from its leader, which this only worker becomes.
        wait_until(lambda: 3 in received.get("kiqbridge_jobs_processed", ()))

        assert worker.stop() == 0
        lines = []
        while "kiqbridge.worker_jobs_processed:3|c" not in lines:
            lines += statsd.recv(65_536).decode().splitlines()
    assert not redis.keys("j|*")  # `metrics` is off: nothing of it went to Redis


def test_a_worker_performs_jobs_whoever_of_them_is_away(start, redis, client):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        worker = start(
            KIQBRIDGE_PROMETHEUS_PORT=str(taken.getsockname()[1]),
            KIQBRIDGE_STATSD="statsd.invalid:8125",
            KIQBRIDGE_OPENTELEMETRY="true",
            OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=f"http://127.0.0.1:{find_free_port()}",
        )
        worker.wait_for_output("cannot be taken")
        perform(client, redis)

        assert worker.stop() == 0
    assert worker.output.count("cannot be taken") == 1
    assert "no numbers for StatsD at statsd.invalid:8125" in worker.output


def test_each_process_of_a_supervisor_has_a_port(start):
    first = find_two_free_ports()
    worker = start("--processes", "2", ready=False, KIQBRIDGE_PROMETHEUS_PORT=str(first))
    for port in (first, first + 1):
        worker.wait_for_output(f"http://127.0.0.1:{port}/metrics")

    shown = [
        key[1] for port in (first, first + 1) for key in scraped(port) if key[0].endswith("_info")
    ]

    assert len({each for each in shown if each.count(":") == 2}) == 2
