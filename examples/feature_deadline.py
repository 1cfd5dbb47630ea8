"""A feature: `@job(deadline_s=60)`. Jobs that wait longer than that in their queue are not begun any more.

The distribution that has it names it in its pyproject.toml:

    [project.entry-points."kiqbridge.features"]
    deadline = "feature_deadline:FEATURE"
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kiqbridge import ConfigError
from kiqbridge.feature import Feature
from kiqbridge.wire.payload import read_timestamp

if TYPE_CHECKING:
    from kiqbridge.client.registry import JobDefinition
    from kiqbridge.engine.settle.ending import Refusal

FEATURE = Feature(
    package=__name__, options={"deadline_s": ":declare"}, gates={"deadline_s": ":look"}
)


def declare(definition: "JobDefinition", value: object) -> "JobDefinition":
    if not isinstance(value, int | float) or value <= 0:
        raise ConfigError(f"deadline_s {value!r} is no number of seconds above 0")
    return replace(definition, options={**definition.options, "deadline_s": value})


def look(payload: Mapping[str, Any], now: float) -> "Refusal | None":
    from kiqbridge.engine.settle.ending import Refusal  # noqa: PLC0415 - a worker has it

    late_s = now - (read_timestamp(payload["enqueued_at"]) or now) - payload["deadline_s"]
    return Refusal(expired=f"{late_s:.1f} s after its deadline") if late_s > 0 else None
