"""Direct invocation: the event is the job, or several, or a tick of EventBridge Scheduler.

Whatever Lambda is invoked with arrives here if no service is recognized: the Input of a schedule, the
payload of a state machine's task, the message that a rule of AWS IoT selected. A text that is the JSON
of a job, or an array of jobs, asks for them, too; anything else needs a mapping. There is no identity:
these callers send none. A tick or a `dedupe_key` is one.
"""

from collections.abc import Mapping
from typing import Any

from kiqbridge.aws.job_forms import resembles_job
from kiqbridge.aws.record import Delivery, Record
from kiqbridge.aws.sources.reading import parsed, service_of
from kiqbridge.runtime.redaction import shorten, shorten_argument


def read(event: object) -> Delivery:
    """The event itself asks for jobs."""
    value = parsed(event) if isinstance(event, str) else event
    job: Any = value
    if isinstance(value, list) and value and all(resembles_job(item) for item in value):
        job = {"jobs": value}
    is_job = resembles_job(job)
    record = Record(
        source="direct",
        event=value,
        job=job if is_job else None,
        no_job="" if is_job else _why_no_job(event),
    )
    return Delivery(source="direct", records=[record])


def _why_no_job(event: object) -> str:
    if isinstance(event, list) and event and (service := service_of(event[0])):
        return (
            f"event: this looks like a pipe's batch of {shorten(service)}, which holds no job by itself, and no mapping "
            "takes it; write into mappings.yml: mappings: [{match: {source: direct}, each: '@', class: NAME, "
            "args: [EXPRESSION]}]"
        )
    if not isinstance(event, Mapping):
        return (
            f"event: {shorten_argument(event)} is not an object, nor the text or the list of jobs; send a job "
            'such as {"class": "NightlyReport", "args": []}, or several as {"jobs": […]}'
        )
    return (
        f"event: {shorten_argument(event)} holds no job; it needs the keys class and args, or jobs with a list "
        "of such objects"
    )
