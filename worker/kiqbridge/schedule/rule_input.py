"""What the Input of a rule must contain: the job, and the identity of the tick.

A tick is (schedule name, scheduled time). Scheduler fills in the time at each delivery, the same one at
every repetition, so that the enqueue function recognizes what it has already enqueued.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from kiqbridge.wire.tick_mark import policy_faults

SCHEDULED_TIME: Final = "<aws.scheduler.scheduled-time>"
_CONTEXT_ATTRIBUTES: Final = frozenset(
    f"<aws.scheduler.{name}>"
    for name in ("schedule-arn", "scheduled-time", "execution-id", "attempt-number")
)


def input_faults(text: str, schedule: str, kind: str) -> Iterator[str]:
    """Yield what is wrong with an Input that is to be a job with the identity of its tick."""
    for attribute in re.findall(r"<aws\.[^>\"]*>?", text):
        if kind != "ScheduleV2" or attribute not in _CONTEXT_ATTRIBUTES:
            known = ", ".join(sorted(_CONTEXT_ATTRIBUTES)) if kind == "ScheduleV2" else "none"
            yield f"Input has {attribute!r}, which a {kind} event does not fill in; it fills in: {known}"
    if "${" in text:
        yield f"Input still has {text[text.index('${') :][:40]!r}: write it after !Sub"
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        yield f"Input is not JSON: {error}"
        return
    if not isinstance(document, dict):
        yield "Input must be a JSON object with class, queue, args and tick"
        return
    yield from _job_faults(document)
    yield from _tick_faults(document.get("tick"), schedule, kind)


def _job_faults(document: dict[str, Any]) -> Iterator[str]:
    jobs = document.get("jobs", [document])
    if not isinstance(jobs, list) or not jobs:
        yield "Input.jobs must be a list of jobs"
        return
    for index, job in enumerate(jobs):
        place = f"Input.jobs[{index}]" if "jobs" in document else "Input"
        if not isinstance(job, dict):
            yield f"{place} must be a JSON object with class, queue and args"
            continue
        names = [job[key] for key in ("class", "active_job") if key in job]
        if len(names) != 1 or not isinstance(names[0], str) or not names[0]:
            yield f'{place} needs the name of its class: write "class": "NightlyReport"'
        if not isinstance(job.get("args"), list):
            yield f'{place} needs a list of arguments: write "args": []'
        if not isinstance(job.get("queue", "default"), str) or not job.get("queue", "default"):
            yield f'{place} has no queue name in "queue": write "queue": "default" or leave it out'


def _tick_faults(tick: Any, schedule: str, kind: str) -> Iterator[str]:
    if kind == "Schedule":
        if tick is not None:
            yield (
                "a Schedule event cannot fill in the time of its tick, so every firing would look"
                " like the first: use Type: ScheduleV2, or leave tick out"
            )
        return
    name = "${AWS::StackName}/" + schedule
    wanted = f'"tick": {{"schedule": "{name}", "at": "{SCHEDULED_TIME}"}}'
    if not isinstance(tick, dict):
        yield f"Input has no tick, so a delivery that is repeated would run twice: write {wanted}"
        return
    named = str(tick.get("schedule", "")).rpartition("/")[2]
    if not (
        named and schedule.startswith(named) and re.fullmatch("[0-9]*", schedule[len(named) :])
    ):
        yield (
            f"Input.tick.schedule is {tick.get('schedule')!r}: write {name}, the event's own name (an event "
            "that is named like another one with a number behind it may have the name of the other one: both are one schedule)"
        )
    if tick.get("at") != SCHEDULED_TIME:
        yield f"Input.tick.at is {tick.get('at')!r}: write {SCHEDULED_TIME}"
    yield from (f"Input.tick.{fault}" for fault in policy_faults(tick))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")
