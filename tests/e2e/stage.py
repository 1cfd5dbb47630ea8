"""What a source is given: the deployed stacks, a way to send, and what was performed."""

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from e2e.localstack import LocalStack
from e2e.performers import Performers, job_for
from e2e.report import Line
from support.waiting import wait_until

NOT_THERE = ("not yet implemented or pro feature", "not included in your", "not implemented")
"""How LocalStack says that it cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The running environment.

    Attributes:
        stack: outputs of the deployed template.
        resources: physical ids of both stacks by their logical ids.
    """

    cloud: LocalStack
    performers: Performers
    stack: dict[str, str]
    resources: dict[str, str]

    @property
    def function(self) -> str:
        return self.stack["EnqueueFunctionArn"]

    def client(self, service: str) -> Any:
        return self.cloud.client(service)

    def wait_performed(self, marker: str, timeout_s: float) -> list[dict[str, Any]]:
        """Wait until a job with this marker was performed; all of its records."""
        return wait_until(
            lambda: self.performers.performed(marker=marker),
            timeout_s,
            f"a job with the argument {marker!r} being performed",
        )

    def function_log(self, since: float) -> list[str]:
        """Lines of the function's log since then, as CloudWatch has them."""
        group = f"/aws/lambda/{self.function.rpartition(':')[2]}"
        pages = self.client("logs").get_paginator("filter_log_events")
        try:
            return [
                event["message"].rstrip()
                for page in pages.paginate(logGroupName=group, startTime=int(since * 1000))
                for event in page["events"]
            ]
        except ClientError as error:
            return [f"no log: {error}"]

    def refusals(self, since: float) -> str:
        """What the function has warned of since then: the last line's reason."""
        reasons = [reason for line in self.function_log(since) if (reason := reason_of(line))]
        return (
            f"the function's log: {reasons[-1]}" if reasons else "the function's log has no error"
        )


def reason_of(message: str) -> str:
    """The reason in a line of the function's log, empty if it is of no error."""
    try:
        line = json.loads(message)
    except ValueError:
        return message.strip() if "[ERROR]" in message else ""
    if not isinstance(line, dict) or line.get("level") not in {"WARNING", "ERROR", "CRITICAL"}:
        return ""
    return str(line.get("reason") or line.get("message"))


Send = Callable[[Stage, dict[str, Any], str], object]
"""Makes the source deliver this job, whose first argument is this marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of events; a further one is one entry more.

    Args:
        name: in the table.
        send: makes it deliver a job.
        check: what is checked after that; a remark for the table.
        timeout_s: until a job is performed.
        performers: who performs a job of it.
        form: of a job's marker.
    """

    name: str
    send: Send
    check: Callable[[Stage, Sequence[str]], str | None] | None = None
    timeout_s: float = 30
    performers: tuple[str, ...] = ("Python", "Ruby")
    form: str = "{}"


def play(stage: Stage, source: Source) -> Line:
    """Deliver one job to each performer and wait until both have performed theirs."""
    run = uuid.uuid4().hex[:8]
    markers = {
        name: source.form.format(f"{source.name.replace(' ', '-')}/{name}/{run}")
        for name in stage.performers.names
        if name in source.performers
    }
    performed: dict[str, str] = {}
    started = time.time()
    try:
        for name, marker in markers.items():
            began = time.time()
            source.send(stage, job_for(name, marker), marker)
            [record, *more] = stage.wait_performed(marker, source.timeout_s)
            assert not more, f"performed {len(more) + 1} times: {marker}"
            assert record["by"] == name, record
            performed[name] = f"{(record['at'] - began) * 1000:.0f}"
        remark = source.check(stage, list(markers.values())) if source.check else None
    except (AssertionError, ClientError, OSError) as error:
        is_gap = any(text in str(error).lower() for text in NOT_THERE)
        remark = str(error) if is_gap else f"{error}; {stage.refusals(started)}"
        return line_of(source.name, markers, performed, "gap" if is_gap else "FAILED", remark)
    return line_of(source.name, markers, performed, "ok", remark or "")


def line_of(
    name: str, markers: dict[str, str], performed: dict[str, str], outcome: Any, remark: str
) -> Line:
    return Line(
        source=name,
        outcome=outcome,
        delivered=f"{len(performed)} of {len(markers)}",
        performed_by=", ".join(performed),
        ms=", ".join(performed.values()),
        remark=remark,
    )
