"""All errors, as one small tree.

Every message says what happened with the value at hand, where it came from, and what to do next.
Foreign exceptions are translated at the border only (`raise ... from`), and no message carries a
password or a secret.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", *, most: int = 1) -> str:
    """The end of a message about an unknown name: `; did you mean mail or mails?`, or `otherwise`."""
    near = near_names(name, known, most)
    return f"; did you mean {' or '.join(near)}?" if near else otherwise


def near_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Those that resemble a name, the nearest first."""
    import difflib  # noqa: PLC0415 - only to help with an error

    return difflib.get_close_matches(name, list(known), n=most)


class KiqbridgeError(Exception):
    """Root of all errors raised by Kiqbridge.

    Attributes:
        pushed, not_pushed, unknown: place among the jobs of the call → jid, after a push of many jobs that was
            ended by this error (`perform_bulk`, `push_bulk`): the jobs that are in Redis, those that are not,
            and those of which this is unknown. Empty for other calls.
        may_pass: whether the call may succeed later by itself, such as after an outage of Redis.
    """

    may_pass: bool = False
    pushed: Mapping[int, str] = MappingProxyType({})
    not_pushed: Mapping[int, str] = MappingProxyType({})
    unknown: Mapping[int, str] = MappingProxyType({})

    def note_pushed(self, jids: Sequence[str | None], states: Sequence[bool | None]) -> None:
        """Note the outcome of the jobs of one call: True = in Redis, None = unknown; a jid of None is no job."""
        jobs = [
            (place, jid, state)
            for place, (jid, state) in enumerate(zip(jids, states, strict=True))
            if jid
        ]
        self.pushed = {place: jid for place, jid, state in jobs if state}
        self.not_pushed = {place: jid for place, jid, state in jobs if state is False}
        self.unknown = {place: jid for place, jid, state in jobs if state is None}
        if self.args and (self.pushed or self.unknown):
            doubt = f", {len(self.unknown):,} may be" if self.unknown else ""
            message = (
                f"{self.args[0]}. Of the {len(jobs):,} jobs of this call {len(self.pushed):,} are enqueued{doubt} and "
                f"{len(self.not_pushed):,} are not: push only those of not_pushed of this error again"
            )
            self.args = (message, *self.args[1:])


class ConfigError(KiqbridgeError):
    """A setting or declaration is wrong; the message names it, its source and allowed values."""


class PayloadError(KiqbridgeError, ValueError):
    """This cannot be a job; the message names the field and shows the value, shortened."""


class ArgumentMismatch(KiqbridgeError):  # noqa: N818 - reads as what happened, beside JobNotFound
    """An argument of a job does not fit the annotation of its parameter; the message names all three.

    Raised before the job is called. The job is dead at once, since another try would meet the same argument,
    unless `on_error` of its class has a rule for this very class: `on_error={ArgumentMismatch: "retry"}`.
    """


class JobNotFound(KiqbridgeError):  # noqa: N818 - a name that users already rely on
    """No job class is registered under this name; the message lists the near names."""


class RedisUnavailable(KiqbridgeError):  # noqa: N818 - a name that users already rely on
    """Redis cannot be reached, or refuses to write (memory full); the message holds the address without the password.

    Nothing was written of the round trip that failed: it never reached a server, or the server refused it. A push
    of many jobs takes several: `pushed` names those that are in Redis.

    Attributes:
        refused: places of the commands that the server refused, if it answered.
    """

    refused: Sequence[int] = ()
    may_pass = True


class RedisMisconfigured(RedisUnavailable):
    """Redis cannot be used for a reason that waiting does not change: TLS, password, database number.

    At its start a worker ends because of it; one that runs tries again, and is not ready.
    """

    may_pass = False


class PushOutcomeUnknown(KiqbridgeError):  # noqa: N818 - a name that users already rely on
    """A push was sent but its reply was lost: the job may or may not be in Redis.

    Attributes:
        jid: the id of the job in doubt. Push again with the same jid if running twice is better
            than not at all, or use a guarded push (`dedupe_key`), which can be repeated safely.
    """

    may_pass = True

    def __init__(self, message: str, jid: str) -> None:
        super().__init__(message)
        self.jid = jid


class PushNotReplicated(KiqbridgeError):  # noqa: N818 - reads as what happened, beside PushOutcomeUnknown
    """A push was carried out, but fewer replicas than asked for confirmed it in time.

    The job is enqueued on the primary and will run; only a failover at this moment could lose it.

    Attributes:
        jids: the ids of the jobs in doubt, all of one round trip.
        jid: the first of them.
    """

    may_pass = True

    def __init__(self, message: str, jids: Sequence[str]) -> None:
        super().__init__(message)
        self.jids = list(jids)
        self.jid = self.jids[0]


class BatchError(KiqbridgeError):
    """A batch does not exist any more, or takes no more jobs; the message names it, and what to do."""


class QueueTooDeep(KiqbridgeError):  # noqa: N818 - reads as what happened, beside RedisRefused
    """A queue has as many jobs waiting as its limit allows; nothing was written, push again later.

    Attributes:
        queues: name → number of jobs that wait in it, of each queue that is at its limit.
        places: place among the items of the call → the same number, for each job that was refused.
    """

    may_pass = True

    def __init__(self, queues: Mapping[str, int], places: Mapping[int, int] | None = None) -> None:
        self.queues = dict(queues)
        self.places = dict(places or {})
        names = ", ".join(f"{name} ({length:,} jobs)" for name, length in queues.items())
        super().__init__(
            f"queue: {names} at its limit, so that nothing was enqueued; send it again later, add workers, "
            "or raise the limit (KIQBRIDGE_QUEUE_LIMITS)"
        )


class NotUnique(KiqbridgeError):  # noqa: N818 - reads as what happened, beside QueueTooDeep
    """A unique job was not pushed, since another one with the same arguments has its lock.

    Attributes:
        jid: of the job that has the lock.
        places: place among the jobs of the call → the same, for each job that was refused.
    """

    def __init__(self, job_class: str, jid: str, places: Mapping[int, str] | None = None) -> None:
        super().__init__(
            f"job {jid} of class {job_class} with the same arguments waits or runs, so that nothing was "
            "enqueued; push it again after that job, or declare it with another on_conflict"
        )
        self.jid = jid
        self.places = dict(places or {0: jid})


class JobFailed(KiqbridgeError):  # noqa: N818 - reads as what happened
    """A job whose result is awaited has ended without success.

    Attributes:
        jid: of the job.
        outcome: "dead", "discarded", "skipped", "expired" or "cancelled".
        error_class: of its last error, as it is kept with the job; "" if there was none.
        message: of that error.
    """

    def __init__(self, jid: str, outcome: str, error_class: str = "", message: str = "") -> None:
        reason = f"{error_class}: {message}" if error_class else "without an error"
        super().__init__(f"job {jid} is {outcome}, {reason}")
        self.jid = jid
        self.outcome = outcome
        self.error_class = error_class
        self.message = message


class ResultTimeout(KiqbridgeError, TimeoutError):  # noqa: N818 - reads as what happened
    """There is no result of a job after the time for which it was awaited; the job may still run."""


class ResultOmitted(KiqbridgeError):  # noqa: N818 - reads as what happened
    """A job is done, but its result could not be stored: it is no JSON, or too long."""


class EventError(KiqbridgeError):
    """An AWS event that cannot be turned into a job; the message names the missing part."""


class NotAllowed(EventError):  # noqa: N818 - a name that users already rely on
    """A class or queue outside the allow-list; the message says how to allow it."""


class RedisRefused(KiqbridgeError):  # noqa: N818 - reads as what happened, beside RedisUnavailable
    """Redis answered a command with an error (wrong type, no permission); the message quotes it.

    Attributes:
        refused: as of `RedisUnavailable`.
        is_forbidden: the user lacks a right, or the server the command: no fault of what was sent.
    """

    refused: Sequence[int] = ()
    is_forbidden: bool = False


class Shutdown(BaseException):
    """Raised in a running job at the hard shutdown, after it was given back (protocol §14.4).

    A BaseException, so that `except Exception` in a job cannot swallow it.
    """


class JobInterrupted(BaseException):
    """Raised by an iterable job that makes room, after its progress is saved (protocol §13.2).

    It is pushed again to the end of its queue. A BaseException for the same reason as `Shutdown`.

    Attributes:
        is_saved: its progress is saved. A job that raises this itself has failed, as with any error.
    """

    is_saved = False


class JobTimeout(KiqbridgeError):  # noqa: N818 - reads as what happened
    """A job ran longer than its `timeout_s`; it is retried as after any other error."""


class JobOverran(KiqbridgeError):  # noqa: N818 - reads as what happened
    """A job ran longer than its `max_run_s` and was taken away from its worker."""


class DecryptionFailed(KiqbridgeError):  # noqa: N818 - reads as what happened
    """An encrypted argument could not be decrypted; the message names the key, never the value."""


class OverLimit(KiqbridgeError):  # noqa: N818 - reads as what happened
    """The limit had no room for as long as the caller waited; nothing was taken from it.

    A job that ends with it is put into `schedule` for later: no failure, and no retry is used up
    (docs/how_to/limiters.md).

    Attributes:
        limiter: name of the limiter.
        kind: its kind.
        wait_s: seconds until there is room, as far as that is known; else 0.
        put_off_s: seconds for which a job is put off at first; twice as long each time.
        max_put_offs: how often a job is put off, before this counts as an error like others.
    """

    limiter = ""
    kind = ""
    wait_s = 0.0
    put_off_s = 15.0
    max_put_offs = 20

    def terms(self) -> dict[str, str | float]:
        """The attributes, as they go from a child process to its worker."""
        return {
            "limiter": self.limiter,
            "kind": self.kind,
            "wait_s": self.wait_s,
            "put_off_s": self.put_off_s,
            "max_put_offs": self.max_put_offs,
        }


class ProcessDied(KiqbridgeError):  # noqa: N818 - reads as what happened
    """The child process that ran a job ended before the job did; the message names the signal.

    Attributes:
        is_verdict: it ran nothing but this job, which was suspected: the job is to blame.
    """

    is_verdict = False


class JobSkipped(KiqbridgeError):  # noqa: N818 - reads as what happened
    """Middleware ended a job without performing it; for a state machine that waits for its result."""


class JobCancelled(KiqbridgeError):  # noqa: N818 - reads as what happened
    """An iterable job was cancelled; for a state machine that waits for its result."""


class JobRemoved(KiqbridgeError):  # noqa: N818 - reads as what happened
    """An operator deleted or killed a job; for a state machine that waits for its result."""


class JobRefused(KiqbridgeError):  # noqa: N818 - reads as what happened
    """A job uses a feature of Sidekiq Pro or Enterprise that cannot be honoured here; it is dead."""
