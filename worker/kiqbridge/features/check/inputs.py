"""The jobs of the rules, against those that the application has, and the queues that its worker serves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kiqbridge.aws.job_forms import OWN_KEYS
from kiqbridge.client.registry import Registry
from kiqbridge.errors import did_you_mean
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.template import TemplateSchedule
from kiqbridge.schedule.template_view import View
from kiqbridge.schedule.yaml_nodes import Problem
from kiqbridge.wire import active_job
from kiqbridge.wire.options import JobOptions, PushOptions

_KNOWN: Final = frozenset(
    {
        *("class", "queue", "args", "retry", "jid", "tick", "jobs", active_job.KEY),
        *OWN_KEYS,
        *JobOptions.__annotations__,
        *PushOptions.__annotations__,
    }
)
_KINDS: Final = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What the rules are held against.

    Attributes:
        registry: its jobs; None = they are not known.
        queues: that its worker serves; None = not known.
        namespace: of its worker; None = not known.
    """

    registry: Registry | None = None
    queues: frozenset[str] | None = None
    namespace: str | None = None


def input_problems(
    view: View, schedules: Sequence[TemplateSchedule], application: Application
) -> Iterator[Problem]:
    """What no worker of the application can perform, and what is written in vain."""
    now = datetime.now(UTC)
    for schedule in schedules:
        if _never_fires(schedule, now):
            text = f"{schedule.expression_text} never fires again: correct it, or remove the rule"
            yield view.problem(schedule.line, schedule.where, text)
        for job in schedule.jobs:
            for text in _job_faults(job, application):
                yield view.problem(schedule.line, schedule.where, text)
    for name, function in view.enqueue_functions():
        given = function["Environment"]["Variables"].get("KIQBRIDGE_NAMESPACE", "")
        if (
            isinstance(given, str)
            and application.namespace is not None
            and given != application.namespace
        ):
            text = (
                f"its KIQBRIDGE_NAMESPACE is {given!r}, and the worker's namespace is {application.namespace!r} "
                "(kiqbridge.yml), so that no worker sees its jobs: make them the same"
            )
            yield view.problem(view.line_of(name), name, text)


def _never_fires(schedule: TemplateSchedule, now: datetime) -> bool:
    try:
        return schedule.expression.next_after(now) is None
    except ExpressionError:  # a rate, which counts from its deployment
        return False


def _job_faults(job: Mapping[str, Any], application: Application) -> Iterator[str]:
    if "tick" in job and "dedupe_key" in job:
        yield (
            "dedupe_key stands beside tick, which already makes each firing enqueue once, and is refused: remove "
            "dedupe_key"
        )
    for key in job.keys() - _KNOWN:
        if hint := did_you_mean(key, sorted(_KNOWN)):
            yield f"{key} is no option of a job, and nothing reads it{hint}"
    name, queue = job.get("class"), job.get("queue", "default")
    is_served = application.queues is None or queue in application.queues
    is_known = application.registry is not None and name in application.registry
    # Ruby's own names, and what is not known on queues of others: jobs of a Rails application.
    if not isinstance(name, str) or "::" in name or not (is_served or is_known):
        return
    if application.queues is not None and not is_served:
        yield (
            f"no worker of this application serves the queue {queue!r}, so that its jobs wait for ever: add it to "
            f":queues: of kiqbridge.yml, or write one of {', '.join(sorted(application.queues))}"
        )
    if application.registry is not None:
        yield from _argument_faults(name, job["args"], application.registry)


def _argument_faults(name: str, args: Sequence[Any], registry: Registry) -> Iterator[str]:
    definition = registry.find(name)
    if definition is None:
        known = [each.name for each in registry]
        yield f"this application has no job {name!r}, so that each one dies{did_you_mean(name, known, ': declare it')}"
        return
    try:
        definition.signature.bind(*args)
    except TypeError as error:
        yield f"args do not fit {name}{definition.signature}: {error}; each job would fail"
        return
    arguments = definition.arguments
    if arguments is None:
        return
    for parameter, value in zip(definition.signature.parameters, args, strict=False):
        expected = arguments.json_of(parameter)
        given = "null" if value is None else _KINDS[type(value)]
        kinds = {each.partition(":")[0] for each in expected.split("|")}
        if not kinds & {"any", given} and not (given == "integer" and "number" in kinds):
            yield f"the argument {parameter} of {name} is {given}, and {expected} is wanted: each job would fail"
