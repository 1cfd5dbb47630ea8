"""The real functions, loaded by their paths as Lambda loads them, and the events that they are given."""

import contextlib
import importlib.util
import io
import json
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from aws_lambda_powertools.logging import logger as powertools

from kiqbridge.wire.json_text import loads

ROOT = Path(__file__).parents[2]
APP = ROOT / "lambdas" / "enqueue" / "app.py"
EVENTS = ROOT / "tests" / "kernel" / "lambdas" / "events"
SAMPLES = ROOT / "events"
"""Those of users, which are of the same form."""
ENVIRONMENT = {
    "KIQBRIDGE_ALLOWED_CLASSES": "NightlyReport,HealthPulse,WeekdayDigest,Billing::*",
    "KIQBRIDGE_ALLOWED_QUEUES": "default,low,mailers,rails",
    # So that tests can say which value a message is about.
    "KIQBRIDGE_LOG_ARGUMENTS": "true",
}

REQUEST = "8f5b8f0e-0f4a-4d57-9f1e-1c9f6c1f0a11"
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:jobs"
INVOKED = "arn:aws:lambda:eu-west-1:123456789012:function:enqueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the functions read of Lambda's context."""

    aws_request_id: str = REQUEST
    invoked_function_arn: str = INVOKED
    function_name: str = "enqueue"
    memory_limit_in_mb: str = "512"
    timeout_s: float = 50.0
    began: float = field(default_factory=time.monotonic)

    def get_remaining_time_in_millis(self) -> int:
        return int((self.timeout_s - (time.monotonic() - self.began)) * 1000)


def invoked_by(alias: str) -> Context:
    """An invocation by an alias of the function; "" = without one."""
    return Context(invoked_function_arn=f"{INVOKED}:{alias}" if alias else INVOKED)


def load_app(name: str = "enqueue") -> ModuleType:
    """`lambdas/NAME/app.py`, a new module each time, as in a new warm environment."""
    powertools.is_cold_start = True
    loggers = logging.Logger.manager.loggerDict
    for made in [each for each in loggers if hasattr(loggers[each], "powertools_handler")]:
        del loggers[made]
    path = ROOT / "lambdas" / name / "app.py"
    spec = importlib.util.spec_from_file_location(f"{name}_app", path)
    module = importlib.util.module_from_spec(spec)
    with contextlib.redirect_stdout(_Stdout()):
        spec.loader.exec_module(module)
    return module


class _Stdout:
    """Standard output of the moment, which pytest changes, for a Logger that keeps what it finds."""

    def write(self, text: str) -> int:
        return sys.stdout.write(text)

    def flush(self) -> None:
        sys.stdout.flush()


def read_event(name: str, **changes: Any) -> dict[str, Any]:
    """The recorded event; `changes` replace its keys."""
    return json.loads(event_file(name).read_text(encoding="utf-8")) | changes


def event_file(name: str) -> Path:
    """Of a recorded event, or a sample of this name."""
    recorded = EVENTS / f"{name}.json"
    return recorded if recorded.exists() else SAMPLES / f"{name}.json"


def job(number: int, **more: Any) -> dict[str, Any]:
    """One that the function may enqueue."""
    return {"class": "HealthPulse", "args": [number], **more}


def messages(
    *bodies: Any, arn: str = QUEUE, groups: Sequence[str] = (), first: int = 0
) -> dict[str, Any]:
    """An event of SQS with a message for each body, m0 and so on; a text is sent as it is."""
    [message] = read_event("sqs_records")["Records"]
    return {
        "Records": [
            message
            | {"messageId": f"m{first + index}", "eventSourceARN": arn}
            | {"body": body if isinstance(body, str) else json.dumps(body)}
            | ({"attributes": {"MessageGroupId": groups[index]}} if groups else {})
            for index, body in enumerate(bodies)
        ]
    }


def failures(answer: Mapping[str, Any]) -> list[str]:
    """The items that are to be delivered again."""
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


def queued(redis: Any, queue: str = "default") -> list[dict[str, Any]]:
    """Payloads, first pushed first."""
    return [loads(text) for text in reversed(redis.lrange(f"queue:{queue}", 0, -1))]


def arguments(redis: Any, queue: str = "default") -> list[Any]:
    return [each["args"] for each in queued(redis, queue)]


def numbers(redis: Any, queue: str = "default") -> list[Any]:
    """The first argument of each."""
    return [each[0] for each in arguments(redis, queue)]


def deliver(environ: Mapping[str, str], events: Sequence[Any], barrier: Any, answers: Any) -> None:
    """Body of a process of its own: all events, one after the other, once every process is ready."""
    os.environ.update(ENVIRONMENT | environ)
    with contextlib.redirect_stdout(io.StringIO()):
        app = load_app()
        barrier.wait(60)
        answers.put([(event, app.lambda_handler(event, Context())) for event in events])


def read_lines(output: str) -> list[dict[str, Any]]:
    """The JSON lines of a function's log."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def read_metrics(output: str) -> Mapping[tuple[str, ...], float]:
    """What CloudWatch makes of a log: (metric, value of each dimension…) → the last value."""
    found: dict[tuple[str, ...], float] = {}
    for line in read_lines(output):
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", ()):
            assert directive["Namespace"] == "Kiqbridge"
            assert isinstance(line["_aws"]["Timestamp"], int)
            for dimensions in directive["Dimensions"]:
                values = tuple(line[name] for name in dimensions)
                assert all(values), "CloudWatch takes no empty value"
                for metric in directive["Metrics"]:
                    [found[(metric["Name"], *values)]] = line[metric["Name"]]
    return found
