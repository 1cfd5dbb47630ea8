"""Jobs that a state machine of AWS Step Functions waits for: their outcomes and heartbeats are sent to it.

For those whose state machines have tasks with `.waitForTaskToken`. Without such jobs a worker has a thread that looks
whether a report waits, when the beat of its lease says so. It must never decide what becomes of a job, hold up a
thread that runs jobs, or let a task token into a log line or a message.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(
    package=__name__,
    ends={"task_token": "report:report_end"},
    consequences="report:pass_on",
    worker="reporter:roles",
)
