"""Heartbeats for tasks whose jobs run here: a state machine with HeartbeatSeconds waits no longer without them.

1. The reporter looks each 5 s whether a running job may name a task (`look`); if so, the thread here begins.
2. Each second it looks at the running jobs. One that has run for a second gets its first heartbeat, which also
   makes up for the time in the queue; then one comes every `task_heartbeat_s` seconds.
3. When no such job runs, it waits to be woken again.

A job that ends, is given back or taken away is not among the running ones any more. Between two tries of a job
that has failed, none are sent.

`StepFunctions` makes the three calls to the service, and says what their errors mean. boto3 is imported at the first
call, not before: most workers never see a job with a task token. Each call is made once and bounded in time; who
calls repeats it.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kiqbridge.client.current import log_context
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.errors import KiqbridgeError
from kiqbridge.features.step_functions.report import Task, may_have_task, task_of
from kiqbridge.runtime import threads
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import HIDDEN
from kiqbridge.runtime.role import LazyRole, Until
from kiqbridge.wire.job_record import watched_payload

CONNECT_S: Final = 3.0
READ_S: Final = 10.0
"""Seconds that one call may take; the service answers within milliseconds."""

_NOBODY_WAITS: Final = frozenset({"TaskDoesNotExist", "TaskTimedOut", "InvalidToken"})
_CANNOT_BE: Final = frozenset({"ValidationException"})
_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429


class NobodyWaits(KiqbridgeError):  # noqa: N818 - reads as what happened
    """The task has timed out, was stopped, or has its outcome already; the message is the error's code."""


class OutputRefused(KiqbridgeError):  # noqa: N818 - reads as what happened
    """Step Functions does not take the output as JSON."""


class CallFailed(KiqbridgeError):  # noqa: N818 - reads as what happened
    """The call may succeed later; the message is for the log.

    Attributes:
        is_service: other calls would fail now as well: the service is away, or throttles.
    """

    def __init__(self, message: str, *, is_service: bool = True) -> None:
        super().__init__(message)
        self.is_service = is_service


class StepFunctions:
    """A client that is made when it is first needed; used by several threads.

    `connect` makes the client; for tests.
    """

    def __init__(self, connect: Callable[[], Any] | None = None) -> None:
        self._connect = connect or _connect
        self._client: Any = None
        self._making = threading.Lock()

    def succeed(self, token: str, output: str) -> None:
        """SendTaskSuccess with JSON text. Raises as `heartbeat`, and `OutputRefused`."""
        self._call("send_task_success", token, output=output)

    def fail(self, token: str, error: str, cause: str) -> None:
        """SendTaskFailure. Raises as `heartbeat`."""
        self._call("send_task_failure", token, error=error, cause=cause)

    def heartbeat(self, token: str) -> None:
        """SendTaskHeartbeat.

        Raises:
            NobodyWaits: the task does not wait any more; so it is with each further call.
            CallFailed: repeat it later.
        """
        self._call("send_task_heartbeat", token)

    def _call(self, name: str, token: str, **parameters: str) -> None:
        client = self._made()
        from botocore.exceptions import (  # noqa: PLC0415 - see above
            BotoCoreError,
            ClientError,
            ParamValidationError,
        )

        try:
            getattr(client, name)(taskToken=token, **parameters)
        except ClientError as error:
            # From None: its message may hold the token.
            raise _meaning(error.response, str(error), token) from None
        except ParamValidationError:
            raise NobodyWaits("ParamValidationError") from None
        except BotoCoreError as error:
            raise CallFailed(_without(token, f"{type(error).__name__}: {error}")) from None
        except Exception as error:  # noqa: BLE001 - of the HTTP library; whatever it is, the report must stay
            raise CallFailed(type(error).__name__) from None

    def _made(self) -> Any:
        """The client.

        Raises:
            CallFailed: boto3 is not installed, or has no region.
        """
        with self._making:
            if self._client is None:
                try:
                    self._client = self._connect()
                except ImportError as error:
                    text = f"{error}; jobs with a task token need boto3: install kiqbridge[aws]"
                    raise CallFailed(text) from None
                except Exception as error:  # noqa: BLE001 - such as NoRegionError
                    raise CallFailed(f"{type(error).__name__}: {error}") from None
            return self._client


def _meaning(response: Any, message: str, token: str) -> KiqbridgeError:
    code = str(response.get("Error", {}).get("Code", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _NOBODY_WAITS or code in _CANNOT_BE:
        return NobodyWaits(code)
    if code == "InvalidOutput":
        return OutputRefused(code)
    is_service = status >= _SERVER_ERROR or status == _TOO_MANY or "Throttl" in code
    return CallFailed(_without(token, message), is_service=is_service)


def _without(token: str, message: str) -> str:
    return message.replace(token, HIDDEN)


def _connect() -> Any:
    import boto3  # noqa: PLC0415 - 145 ms, for jobs with a task token alone
    from botocore.config import Config  # noqa: PLC0415 - as above

    for name in ("boto3", "botocore", "urllib3"):
        # At level debug they log what they send: the token.
        logging.getLogger(name).setLevel(
            max(logging.INFO, logging.getLogger(name).getEffectiveLevel())
        )
    return boto3.client(
        "stepfunctions",
        config=Config(
            connect_timeout=CONNECT_S,
            read_timeout=READ_S,
            retries={"total_max_attempts": 1},
            max_pool_connections=2,
        ),
    )


logger = logging.getLogger(__name__)

TICK_S: Final = 1.0
RETRY_S: Final = 5.0
"""Seconds after which a heartbeat that failed is tried again, or its interval if that is less."""

WARN_S: Final = 60.0


@dataclass(slots=True, eq=False)
class _Watched:
    """A running job; `due` on the clock, None = no heartbeats (any more)."""

    job: RunningJob
    task: Task | None
    every_s: float
    due: float | None


class TaskHeartbeats(LazyRole):
    """The thread that sends heartbeats; started by the first job that may name a task.

    Args:
        running: the running jobs, by the id of their thread or task.
        service: Step Functions.
        every_s: seconds between two heartbeats of a job that does not choose; 0 = none.
        clock: seconds that never jump.

    Attributes:
        sent: how many heartbeats Step Functions has taken.
    """

    def __init__(
        self,
        *,
        running: Callable[[], Mapping[str, RunningJob]],
        service: StepFunctions,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            "task heartbeats",
            self._beat_on,
            without="tasks of Step Functions get no heartbeats, and may fail",
            until=Until.ENDS,
            join_s=0,
        )
        self.sent = 0
        self._running = running
        self._service = service
        self._every_s = every_s
        self._clock = clock
        self._watched: dict[int, _Watched] = {}
        self._warn_at = 0.0

    def look(self) -> None:
        """Begin if a running job may name a task; called by another thread now and then."""
        if self._stopping.is_set() or (self._some.is_set() and self.runs):
            return
        if any(may_have_task(job.text) for job in self._running().values()):
            self.wake()

    def beat(self) -> bool:
        """Send what is due now; whether any running job may name a task."""
        now = self._clock()
        before, self._watched = self._watched, {}
        for job in self._running().values():
            if may_have_task(job.text):
                known = before.get(id(job))
                if known is None or known.job is not job:
                    task = task_of(watched_payload(job.text))
                    every_s = self._every_s
                    if task is not None and task.heartbeat_s is not None:
                        every_s = task.heartbeat_s
                    known = _Watched(job, task, every_s, now + TICK_S if every_s else None)
                self._watched[id(job)] = known
        for each in self._watched.values():
            if self._stopping.is_set():
                break
            if each.task is not None and each.due is not None and each.due <= now:
                with log_context(**{"class": each.task.job_class, "jid": each.task.jid}):
                    self._send(each, each.task)
        return bool(self._watched)

    def _send(self, each: _Watched, task: Task) -> None:
        threads.beat()
        try:
            self._service.heartbeat(task.token)
        except NobodyWaits as error:
            each.due = None
            logger.warning(
                "no task waits for job %s of class %s any more (%s); the job goes on, and its outcome will "
                "not be taken",
                task.jid,
                task.job_class,
                error,
            )
            return
        except CallFailed as error:
            each.due = self._clock() + min(each.every_s, RETRY_S)
            if self._clock() >= self._warn_at:
                self._warn_at = self._clock() + WARN_S
                logger.warning(
                    "a heartbeat of job %s of class %s could not be sent to Step Functions: %s; it is tried "
                    "again",
                    task.jid,
                    task.job_class,
                    error,
                )
            return
        self.sent += 1
        each.due = self._clock() + each.every_s

    def _beat_on(self) -> None:
        while not self._stopping.is_set():
            threads.rest()
            self._some.wait()
            threads.beat()
            if not self.beat():
                self._some.clear()
                continue
            threads.rest()
            self._stopping.wait(TICK_S)
