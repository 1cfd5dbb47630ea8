"""What a fake has recorded: the jobs as they would be in Redis, and what became of those that ran."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from kiqbridge.wire import json_text
from kiqbridge.wire.active_job import performed_class
from kiqbridge.wire.payload import read_timestamp

Outcome = Literal[
    "done", "retry", "dead", "discarded", "interrupted", "put off", "expired", "skipped"
]
"""What became of a job. `interrupted`: an iterable job that goes on later; `expired`, `skipped`: it was not begun,
since it was too late, or by its rules."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RecordedJob:
    """One job, read from the text that would be in Redis.

    Attributes:
        payload: all its attributes.
        queue: where it waits, or would be performed.
        at: when it is due (epoch seconds), of a scheduled job or a retry; None: it is in its queue.
    """

    payload: Mapping[str, Any]
    queue: str
    at: float | None = None
    text: bytes = field(default=b"", compare=False)

    @property
    def jid(self) -> str:
        """The job's id."""
        return str(self.payload.get("jid"))

    @property
    def job_class(self) -> str:
        """The class that performs it, as on the wire; of a Rails job the one inside its wrapper."""
        return performed_class(self.payload)

    @property
    def args(self) -> list[Any]:
        """The arguments as JSON gives them back."""
        args = self.payload.get("args")
        return list(args) if isinstance(args, Sequence) else []

    @property
    def created_at(self) -> float | None:
        """When it was made, epoch seconds."""
        return read_timestamp(self.payload.get("created_at"))

    @property
    def due(self) -> datetime | None:
        """`at` as an aware datetime in UTC."""
        return None if self.at is None else datetime.fromtimestamp(self.at, UTC)

    @property
    def retry_count(self) -> int | None:
        """0 after its first failure; None: it has not failed."""
        count = self.payload.get("retry_count")
        return count if isinstance(count, int) else None

    @property
    def error_class(self) -> str | None:
        """That of its last failure, as on the wire."""
        return self.payload.get("error_class")

    @property
    def error_message(self) -> str | None:
        """That of its last failure."""
        return self.payload.get("error_message")

    @property
    def tick(self) -> Mapping[str, Any] | None:
        """The occurrence that it belongs to, `schedule` and `at`, of a job that a schedule enqueued."""
        return self.payload.get("tick")

    def __repr__(self) -> str:
        return f"<RecordedJob {self}>"

    def __str__(self) -> str:
        args = json_text.dumps(self.args).decode()
        when = "" if self.due is None else f", due {self.due.isoformat(timespec='seconds')}"
        return f"{self.job_class} {args} in queue {self.queue}{when} (jid {self.jid})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PerformedJob:
    """One execution of a job.

    Attributes:
        job: as it was fetched.
        outcome: what became of it.
        result: what it returned, as it is; None if it raised, or was not called.
        error: what it raised.
    """

    job: RecordedJob
    outcome: Outcome
    result: Any = None
    error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<PerformedJob {self}>"

    def __str__(self) -> str:
        why = "" if self.error is None else f", {type(self.error).__name__}: {self.error}"
        return f"{self.job}: {self.outcome}{why}"


def read_job(text: bytes, queue: str | None = None, at: float | None = None) -> RecordedJob:
    """A job from its text; the queue of one in a sorted set stands in the payload."""
    payload: dict[str, Any] = json_text.loads(text)
    return RecordedJob(
        payload=payload, queue=queue or str(payload.get("queue", "default")), at=at, text=text
    )


def raise_error_of(performed: PerformedJob, *, raises: bool) -> None:
    """Raise what a job raised, if errors are to be raised; what is no `Exception` in any case.

    Raises:
        BaseException: that of the job, with a note that names the job.
    """
    error = performed.error
    # A job that is put off, over a limit, has not failed.
    raises = raises and performed.outcome != "put off"
    if error is None or (not raises and isinstance(error, Exception)):
        return
    note = f"raised by job {performed.job}; outcome: {performed.outcome}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    raise error
