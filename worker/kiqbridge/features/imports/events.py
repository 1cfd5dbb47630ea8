"""Writing imported schedules: `ScheduleV2` events for template.yaml, or the file of dynamic schedules.

The events are those of the enqueue function, with the Input that rule_input.py asks for. A schedule that needs
several expressions becomes several events whose ticks share one name: of a minute in which two are due, one job is
enqueued.
"""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from kiqbridge.features.imports.command_line import SHELL_COMMAND, class_name_to_identifier
from kiqbridge.features.imports.eventbridge import eventbridge_expressions
from kiqbridge.features.imports.record import ImportedSchedule
from kiqbridge.schedule.cron import Rate, ScheduleExpression
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.schedule.rule_input import SCHEDULED_TIME

_LONGEST_DESCRIPTION: Final = 512  # API_CreateSchedule
_LONGEST_AGE_S: Final = 14_400
_SHORTEST_AGE_S: Final = 60
_SHOWN: Final = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An imported schedule with its unique name, and the expressions of EventBridge by the names of its events.

    Without events it is a dynamic schedule.
    """

    name: str
    schedule: ImportedSchedule
    events: Mapping[str, str] = field(default_factory=dict)

    @property
    def parsed(self) -> list[ScheduleExpression]:
        """What fires it: its events, parsed again from their text, or its own expression."""
        texts = self.events.values() or (self.schedule.expression,)
        return [parse_expression(text, self.schedule.timezone) for text in texts]


def write_all(
    schedules: Iterable[ImportedSchedule], *, is_dynamic: bool
) -> tuple[list[Written], list[tuple[ImportedSchedule, str]]]:
    """Give each schedule a unique name, and its rules.

    Args:
        schedules: in the order of their file.
        is_dynamic: the expression is kept as it is, so that one that EventBridge cannot say is none that is
            refused.

    Returns:
        What can be written, and the others with the reason.
    """
    written: list[Written] = []
    refused: list[tuple[ImportedSchedule, str]] = []
    taken: set[str] = set()
    for schedule in schedules:
        if is_dynamic:
            name = _unique(dynamic_name(schedule.name), taken, separator="-")
            written.append(Written(name=name, schedule=schedule))
            continue
        try:
            texts = eventbridge_expressions(
                parse_expression(schedule.expression, schedule.timezone)
            )
        except ExpressionError as error:
            refused.append((schedule, _reason(error, schedule.expression)))
            continue
        identifier = class_name_to_identifier(schedule.name)
        events = {_unique(identifier, taken): text for text in texts}
        written.append(Written(name=next(iter(events)), schedule=schedule, events=events))
    return written, refused


def dynamic_name(name: str) -> str:
    """The name of a dynamic schedule: letters, digits and `_ - . : /`."""
    return re.sub(r"[^A-Za-z0-9_.:/-]+", "-", name).strip("-")[:200] or "schedule"


def events_text(written: Sequence[Written], *, source: str, now: datetime) -> str:
    """YAML to paste under `Events:` of the enqueue function, with what else has to be written there."""
    jobs = [each.schedule.job for each in written]
    classes = sorted({str(job.get("class", job.get("active_job"))) for job in jobs})
    queues = sorted({str(job.get("queue", "default")) for job in jobs})
    lines = [
        f"# Made of {_one_line(source)} by kiqbridge schedule import.",
        "# Paste it under Events: of EnqueueFunction in template.yaml, and allow there what it enqueues:",
        f"#   KIQBRIDGE_ALLOWED_CLASSES: {', '.join(classes)}",
        f"#   KIQBRIDGE_ALLOWED_QUEUES: {', '.join(queues)}",
    ]
    for each in written:
        for name, expression in each.events.items():
            lines += ["", *_event(each, name, expression, now)]
    return "\n".join(lines) + "\n"


def dynamic_document(written: Sequence[Written]) -> dict[str, Any]:
    """What `kiqbridge schedule apply` reads: name → expression, timezone, class, args, queue and more."""
    document: dict[str, Any] = {}
    for each in written:
        schedule = each.schedule
        entry: dict[str, Any] = {"expression": schedule.expression}
        if schedule.timezone != "UTC":
            entry["timezone"] = schedule.timezone
        entry |= schedule.job
        if schedule.description:
            entry["description"] = schedule.description
        if not schedule.enabled:
            entry["enabled"] = False
        document[each.name] = entry
    return document


def shell_commands(written: Sequence[Written]) -> list[str]:
    """The entries that KIQBRIDGE_SHELL_COMMANDS needs, each for exactly one command."""
    jobs = [each.schedule.job for each in written]
    commands = dict.fromkeys(job["args"][0] for job in jobs if job.get("class") == SHELL_COMMAND)
    return [f"={each}" if re.search(r"[*?]", each) else each for each in commands]


def _event(each: Written, name: str, expression: str, now: datetime) -> list[str]:
    schedule = each.schedule
    lines = [f"# line {schedule.line}: {_one_line(schedule.source)}"]
    lines += [f"# note: {_one_line(note)}" for note in schedule.notes]
    description = schedule.description or f"Imported: {schedule.source}"
    properties = [
        f"Description: {_scalar(_one_line(description, _LONGEST_DESCRIPTION))}",
        f"ScheduleExpression: {expression}",
        f"ScheduleExpressionTimezone: {schedule.timezone}",
    ]
    if not schedule.enabled:
        properties.append("State: DISABLED")
    # Until when a delivery is tried again: not beyond the next occurrence, and not for long.
    parsed = parse_expression(schedule.expression, schedule.timezone)
    if isinstance(parsed, Rate):
        gap = parsed.period_s
    else:
        pairs = itertools.pairwise(parsed.after(now))
        gap = next((int((b - a).total_seconds()) for a, b in pairs), _LONGEST_AGE_S)
    age = max(_SHORTEST_AGE_S, min(_LONGEST_AGE_S, gap))
    properties += [
        'FlexibleTimeWindow: {Mode: "OFF"}',
        "GroupName: !Ref ScheduleGroup",
        "OmitName: true",
        "RoleArn: !GetAtt ScheduleRole.Arn",
        f"RetryPolicy: {{MaximumRetryAttempts: 20, MaximumEventAgeInSeconds: {age}}}",
        "DeadLetterConfig: {Arn: !GetAtt EnqueueDeadLetterQueue.Arn}",
        "Input: !Sub |-",
        *(f"  {line}" for line in _input(each.name, schedule.job)),
    ]
    lines += [f"{name}:", "  Type: ScheduleV2", "  Properties:", *(f"    {p}" for p in properties)]
    return [f"        {line}" for line in lines]


def _input(name: str, job: Mapping[str, Any]) -> list[str]:
    """The Input's lines, a member each."""
    members = [f"  {json.dumps(key)}: {_json(value)}," for key, value in job.items()]
    return [
        "{",
        *members,
        '  "tick": {',
        f'    "schedule": "${{AWS::StackName}}/{name}",',
        f'    "at": "{SCHEDULED_TIME}"',
        "  }",
        "}",
    ]


def _json(value: object) -> str:
    """JSON in which neither CloudFormation nor Scheduler finds something to fill in."""
    return json.dumps(value).replace("${", r"\u0024{").replace("<aws.", r"\u003caws.")


def _unique(name: str, taken: set[str], *, separator: str = "") -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}{separator}{number}"
    taken.add(found)
    return found


def _one_line(text: str, most: int = _SHOWN) -> str:
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]+", " ", text).strip()
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _scalar(text: str) -> str:
    """A YAML scalar; JSON's strings are YAML's."""
    is_plain = re.fullmatch(r"[A-Za-z][\w ,.'()/-]*", text) and not text.endswith((" ", ":"))
    return text if is_plain and text.lower() not in _YAML_WORDS else json.dumps(text)


_YAML_WORDS: Final = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})


def _reason(error: ExpressionError, expression: str) -> str:
    text = str(error)
    for start in (f"schedule expression {expression!r}: ", f"crontab line {expression!r}: "):
        text = text.removeprefix(start)
    return text
