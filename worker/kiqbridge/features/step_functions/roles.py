"""The threads of a worker that talk to Step Functions."""

from kiqbridge.engine.parts import EngineParts
from kiqbridge.features.step_functions.heartbeats import TaskHeartbeats
from kiqbridge.features.step_functions.reporter import TaskReporter
from kiqbridge.features.step_functions.service import StepFunctions
from kiqbridge.runtime.role import Role


def roles(parts: EngineParts) -> tuple[Role, ...]:
    """What sends heartbeats, and what sends reports."""
    service, reports = StepFunctions(), parts.keys.task_reports
    heartbeats = TaskHeartbeats(
        running=parts.running_jobs, service=service, every_s=parts.config.task_heartbeat_s
    )
    reporter = TaskReporter(
        keys=parts.keys, connection=parts.connect(), service=service, on_look=heartbeats.look
    )
    parts.outbox.on_write[reports] = reporter.wake
    parts.keeper.watch([reports], reporter.note)
    return heartbeats, reporter
