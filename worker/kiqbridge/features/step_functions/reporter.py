"""Sending reports of jobs to Step Functions (reliability §14).

1. The outbox moves the report of a job that has ended to `kb:reports`, and calls `wake`.
2. The thread here takes reports that are due, for `TAKE_S` seconds: no other worker takes them meanwhile.
3. SendTaskSuccess or SendTaskFailure; then the report is removed.
4. No execution waits any more (timed out, stopped, has its outcome already): a line in the log, and it is removed.
5. The call failed: it is put off, for as long as half of its age, between 1 s and a minute. If the service is
   away or throttles, no other report is tried either, for 0.2 s, then 0.4 s and so on, up to 5 s.

What a worker leaves behind that was killed is sent by another one: each hears from the beat of its lease
(engine/inflight/beat.py) whether there is anything, and looks each 5 s while there is. At least once: a report whose removal was lost is sent again, and Step Functions answers that no execution waits.
"""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from kiqbridge.client.current import log_context
from kiqbridge.engine.parts import EngineParts
from kiqbridge.features.step_functions.heartbeats import (
    CallFailed,
    NobodyWaits,
    OutputRefused,
    StepFunctions,
    TaskHeartbeats,
)
from kiqbridge.features.step_functions.report import TaskReport, omitted_output
from kiqbridge.runtime import threads
from kiqbridge.runtime.clock import wall_now
from kiqbridge.runtime.hints import Hint
from kiqbridge.runtime.role import Role, Until
from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

_TAKE: Final = scripts.load("take_reports")

LOOK_S: Final = 5.0
"""Seconds between two looks for reports that others have left, while there are any."""

BATCH: Final = 20
TAKE_S: Final = 60.0
"""For so long others leave alone what was taken; should it lapse, a report is sent twice."""

FIRST_PAUSE_S: Final = 0.2
"""For so long nothing is sent after the service was away or throttled, twice as long each further time, up to
`LOOK_S`: throttling is over in no time, and an outage must not be made longer by everybody's calls."""

LONGEST_PAUSE_S: Final = 60.0
OLDEST_S: Final = 366 * 86_400.0
"""An execution ends after a year (Step Functions, quotas), so no execution waits for an older report."""

LAST_REPORTS_S: Final = 1.5
"""Seconds for which a process that ends waits for its reports; other workers send what is left in Redis."""

WARN_S: Final = 60.0
"""Seconds between two warnings that reports wait."""


class TaskReporter(Role):
    """The thread that sends reports.

    Args:
        keys: the namespace.
        connection: its own.
        service: Step Functions.
        on_look: called at each look, on this thread.

    Attributes:
        sent: how many reports Step Functions has taken.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        connection: RedisConnection,
        service: StepFunctions,
        on_look: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(
            "task reports",
            self._look_on,
            work="reporting to Step Functions",
            until=Until.ENDS,
            join_s=LAST_REPORTS_S,
        )
        self.sent = 0
        self._key = keys.task_reports
        self._connection = connection
        self._service = service
        self._on_look = on_look
        self._warn_at = 0.0
        self._pause_s = 0.0
        self._looked_at = 0.0
        self._hint = Hint()

    def note(self, is_some: bool, /) -> None:  # noqa: FBT001 - as `LeaseKeeper.watch` calls it
        """Whether there are reports, as the beat of the lease has found out. From any thread, at once."""
        self._hint.give(is_some=is_some)
        if is_some and time.monotonic() >= self._looked_at + LOOK_S:
            self._some.set()

    def look(self) -> bool:
        """Take and send what is due, up to `BATCH`; whether there may be more that can be sent now.

        Raises:
            KiqbridgeError: Redis is away; nothing is lost.
        """
        if not self._connection.call("EXISTS", self._key):
            return False
        now, *texts = self._connection.script(_TAKE, [self._key], [BATCH, TAKE_S])
        began = time.monotonic()
        for index, text in enumerate(texts):
            threads.beat()
            if not self._send(text, lambda: float(now) + time.monotonic() - began):
                for other in texts[index + 1 :]:
                    self._wait(other, float(now))
                return False
        return len(texts) == BATCH

    def _send(self, text: bytes, now: Callable[[], float]) -> bool:
        """Send one report and remove it, or put it off; False: others could not be sent now, either."""
        try:
            report = TaskReport.from_text(text)
        except ValueError:  # its message would quote the token
            logger.warning("a report in %s cannot be read: dropped", self._key)
            self._remove(text)
            return True
        with log_context(**{"class": report.job_class, "jid": report.jid}):
            return self._send_read(report, text, now)

    def _send_read(self, report: TaskReport, text: bytes, now: Callable[[], float]) -> bool:
        try:
            if report.output is None:
                self._service.fail(report.token, report.error, report.cause)
            else:
                self._service.succeed(report.token, report.output)
            self._pause_s = 0.0
        except NobodyWaits as error:
            self._pause_s = 0.0
            logger.warning(
                "no task waits for %s (%s): it has timed out, was stopped, or has its outcome already; the "
                "report is dropped",
                _named(report),
                error,
            )
        except OutputRefused:
            # The state machine must not wait for ever: it gets an output that names what is left out.
            logger.warning(
                "Step Functions does not take the return value of %s as JSON: an object with the members jid "
                "and omitted is sent in its place",
                _named(report),
            )
            why = "was refused by Step Functions as no JSON"
            other = replace(report, output=omitted_output(report.jid, why)).to_text()
            add, remove = ("ZADD", self._key, "0", other), ("ZREM", self._key, text)
            self._connection.run(("MULTI",), add, remove, ("EXEC",))
            self._some.set()
            return True
        except CallFailed as error:
            return self._put_off(report, text, error, now())
        else:
            self.sent += 1
            what = "failure" if report.output is None else "success"
            logger.info("reported the %s of %s to Step Functions", what, _named(report))
        self._remove(text)
        return True

    def _put_off(self, report: TaskReport, text: bytes, error: CallFailed, now: float) -> bool:
        age_s = wall_now() - report.at
        if age_s > OLDEST_S:
            logger.error("%s ended more than a year ago: its report is dropped", _named(report))
            self._remove(text)
            return True
        if time.monotonic() >= self._warn_at:
            self._warn_at = time.monotonic() + WARN_S
            logger.warning(
                "the outcome of %s could not be reported to Step Functions: %s; it stays in Redis (%s) and is "
                "sent later",
                _named(report),
                error,
                self._key,
            )
        spread = random.uniform(0.8, 1.2)  # noqa: S311 - of what several workers try again
        pause_s = min(max(age_s / 2, 1.0), LONGEST_PAUSE_S) * spread
        self._wait(text, now + pause_s)
        if error.is_service:
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LOOK_S)
        return not error.is_service

    def _remove(self, text: bytes) -> None:
        """It has been sent, or no execution waits for it."""
        self._connection.call("ZREM", self._key, text)

    def _wait(self, text: bytes, until: float) -> None:
        """It is due again at this time (epoch seconds, of the server), unless it is gone."""
        self._connection.call("ZADD", self._key, "XX", repr(until), text)

    def _look_on(self) -> None:
        while True:
            is_last, is_woken = self._stopping.is_set(), self._some.is_set()
            self._some.clear()
            threads.beat()
            self.tried(partial(self._turn, must_look=is_last or is_woken))
            if is_last:
                return
            threads.rest()
            if self._pause_s:
                self._stopping.wait(self._pause_s)  # whatever is written meanwhile
            elif not self._stopping.is_set():
                self._some.wait(LOOK_S)

    def _turn(self, *, must_look: bool) -> None:
        self._on_look()
        if must_look or self.is_refused or not self._hint.says_nothing:
            self._looked_at = time.monotonic()
            while self.look():
                pass


def _named(report: TaskReport) -> str:
    return f"job {report.jid} of class {report.job_class}"


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
