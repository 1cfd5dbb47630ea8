"""X-Ray: asked for, each invocation is a subsegment; missing, a line says so; else nothing is loaded."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.enqueue_function import APP, ENVIRONMENT, Context, read_event

from kiqbridge.aws import handler

TESTS = str(Path(__file__).parents[2])
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
INVOKE = """
import importlib.util, json, sys
sys.path.insert(0, sys.argv[3])
from support.enqueue_function import Context
spec = importlib.util.spec_from_file_location("app", sys.argv[1])
app = importlib.util.module_from_spec(spec)
spec.loader.exec_module(app)
print(json.dumps(app.lambda_handler(json.loads(sys.argv[2]), Context())))
"""


@pytest.fixture
def daemon():
    """X-Ray's daemon as far as the SDK needs it: a UDP socket that gets the segments."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(10)
        yield listening


def test_an_invocation_is_a_subsegment_with_what_became_of_the_event(daemon, redis, redis_url):
    """In a process of its own: the SDK reads its environment once."""
    environ = {
        **ENVIRONMENT,
        "REDIS_URL": redis_url,
        "KIQBRIDGE_TRACING": "true",
        "LAMBDA_TASK_ROOT": "/var/task",
        "AWS_XRAY_DAEMON_ADDRESS": "{}:{}".format(*daemon.getsockname()),
        "_X_AMZN_TRACE_ID": TRACE,
    }

    event = json.dumps(read_event("direct_one"))
    done = subprocess.run(
        [sys.executable, "-c", INVOKE, str(APP), event, TESTS],
        env=environ, capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip

    header, _, text = daemon.recv(65_536).decode().partition("\n")
    segment = json.loads(text)
    assert json.loads(header) == {"format": "json", "version": 1}
    assert (segment["name"], segment["trace_id"]) == (
        handler.SUBSEGMENT,
        "1-5759e988-bd862e3fe1be46a994272793",
    )
    assert segment["annotations"] == {
        "service": "kiqbridge-enqueue",
        "source": "direct",
        "enqueued": 1,
        "duplicates": 0,
        "failed": 0,
    }
    times = {"start_time", "end_time"}  # any digits
    shown = {name: value for name, value in segment.items() if name not in times}
    assert "three" not in str(shown) and "4.0" not in str(shown)  # no argument
    assert len(json.loads(done.stdout.splitlines()[-1])["enqueued"]) == 1
    assert json.loads(redis.lindex("queue:default", 0))["X-Amzn-Trace-Id"] == TRACE


def test_without_the_sdk_a_line_says_so_once_and_jobs_are_enqueued(
    load, environment, monkeypatch, capsys, redis
):
    environment.setenv("KIQBRIDGE_TRACING", "true")
    monkeypatch.setattr(handler.importlib.util, "find_spec", lambda _name: None)
    app = load()

    for _ in range(2):
        app.lambda_handler(read_event("direct_one"), Context())

    lines = [
        json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" not in line
    ]
    [warning] = [line for line in lines if line["level"] == "WARNING"]
    assert "add a layer with aws-xray-sdk" in warning["message"]
    assert redis.llen("queue:default") == 2


def test_nothing_of_it_is_loaded_unless_it_is_asked_for(redis_url):
    script = INVOKE + 'print("modules", *sorted(sys.modules))'
    done = subprocess.run(
        [sys.executable, "-c", script, str(APP), json.dumps(read_event("direct_one")), TESTS],
        env={**ENVIRONMENT, "REDIS_URL": redis_url},
        capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip

    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded.isdisjoint(
        {
            "aws_xray_sdk",
            "kiqbridge.features.http_events.http",
        }
    )
    assert "kiqbridge.aws.sources.direct" in loaded
