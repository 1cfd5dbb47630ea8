"""The real enqueue function, loaded by its path as Lambda loads it, and the events it is given."""

import contextlib
import importlib.util
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
APP = ROOT / "lambdas" / "enqueue" / "app.py"
EVENTS = ROOT / "tests" / "lambdas" / "events"
ENVIRONMENT = {
    "KIQBRIDGE_ALLOWED_CLASSES": "NightlyReport,HealthPulse,WeekdayDigest,Billing::*",
    "KIQBRIDGE_ALLOWED_QUEUES": "default,low,mailers,rails",
    # So that tests can say which value a message is about.
    "KIQBRIDGE_LOG_ARGUMENTS": "true",
}


INVOKED = "arn:aws:lambda:eu-west-1:123456789012:function:enqueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the function reads of Lambda's context."""

    aws_request_id: str = "8f5b8f0e-0f4a-4d57-9f1e-1c9f6c1f0a11"
    invoked_function_arn: str = INVOKED


def invoked_by(alias: str) -> Context:
    """An invocation by an alias of the function; "" = without one."""
    return Context(invoked_function_arn=f"{INVOKED}:{alias}" if alias else INVOKED)


def load_app() -> ModuleType:
    """A new module each time, as in a new warm environment."""
    spec = importlib.util.spec_from_file_location("enqueue_app", APP)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_event(name: str, **changes: Any) -> dict[str, Any]:
    """The recorded event; `changes` replace its keys."""
    return json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8")) | changes


def deliver(environ: Mapping[str, str], events: Sequence[Any], barrier: Any, answers: Any) -> None:
    """Body of a process of its own: all events, one after the other, once every process is ready."""
    os.environ.update(ENVIRONMENT | environ)
    with contextlib.redirect_stdout(io.StringIO()):
        app = load_app()
        barrier.wait(60)
        answers.put([(event, app.lambda_handler(event, Context())) for event in events])
