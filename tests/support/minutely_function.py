"""The functions that a rule invokes each minute, loaded by their paths as Lambda loads them, and what they report."""

import importlib.util
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from support.enqueue_function import ROOT

REQUEST = "8f5b8f0e-0f4a-4d57-9f1e-1c9f6c1f0a11"


@dataclass(frozen=True, slots=True, kw_only=True)
class MinuteContext:
    """Lambda's context, with the time that is left."""

    timeout_s: float = 50.0
    aws_request_id: str = REQUEST
    began: float = field(default_factory=time.monotonic)

    def get_remaining_time_in_millis(self) -> int:
        return int((self.timeout_s - (time.monotonic() - self.began)) * 1000)


def load_function(name: str) -> ModuleType:
    """`lambdas/NAME/app.py`, a new module each time, as in a new warm environment."""
    path = ROOT / "lambdas" / name / "app.py"
    spec = importlib.util.spec_from_file_location(f"{name}_app", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
                    found[(metric["Name"], *values)] = line[metric["Name"]]
    return found
