"""What is strange in a job's text in Redis, and what follows (protocol §4): for its page, and for the doctor's sample."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.payload import MILLISECONDS_FROM

Severity = Literal["bad", "warn", "note"]

LARGE_BYTES: Final = 100_000
_TIMES: Final = ("created_at", "enqueued_at", "failed_at", "retried_at")
_JID: Final = re.compile(r"[0-9a-f]{24}")
_UNKNOWN_CLASS: Final = ("JobNotFound", "NameError")
_FOREIGN: Final = {
    "bid": "It belongs to a batch of Sidekiq Pro: only Ruby workers with Pro keep count of it.",
    "encrypt": "Its last argument is encrypted by Sidekiq Enterprise: only Ruby workers with the key can read it.",
    "unique_for": "It holds a lock of Sidekiq Enterprise: only Ruby workers release it.",
    "lock_digest": "It holds a lock of sidekiq-unique-jobs: only Ruby workers release it.",
    "unique_digest": "It holds a lock of sidekiq-unique-jobs: only Ruby workers release it.",
}


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing about a payload: `bad` keeps it from being performed, `warn` may, `note` is good to know.

    Its text says what is so, and behind a colon what follows; `rule` is the rule of the doctor that counts it.
    """

    severity: Severity
    text: str
    rule: str = ""


def remarks(job: JobRecord) -> list[Remark]:
    """All that is to be said about a text, the worst first; empty if it is as Sidekiq writes it."""
    found = list(_of_text(job))
    if job.is_readable and not found:
        found += _of_fields(job)
    if len(job.text) > LARGE_BYTES:
        found.append(
            Remark(
                "warn", f"It has {len(job.text):,} bytes: put the data elsewhere and pass its key."
            )
        )
    return sorted(found, key=lambda remark: ("bad", "warn", "note").index(remark.severity))


def _of_text(job: JobRecord) -> Iterator[Remark]:
    try:
        job.text.decode()
    except UnicodeDecodeError as error:
        yield Remark("bad", f"The text is no UTF-8: at byte {error.start:,}.", "payload")
        return
    if job.is_readable:
        return
    if job.item:
        yield Remark("note", "It is too long to be read here as a whole.")
    else:
        yield Remark("bad", "The text is no JSON object: no worker can perform it.", "payload")


def _of_fields(job: JobRecord) -> Iterator[Remark]:
    item = job.item
    if not isinstance(item.get("class"), str) or not item["class"]:
        yield Remark("bad", "class is missing: no worker can perform it.", "payload")
    if not isinstance(item.get("args"), list):
        yield Remark("bad", "args is no list: it cannot be performed.", "payload")
    if not job.jid:
        yield Remark("bad", "jid is missing: it cannot be followed or found by it.", "payload")
    elif not _JID.fullmatch(job.jid):
        yield Remark("note", "jid is not the 24 hexadecimal digits of Sidekiq.")
    if "queue" not in item:
        yield Remark("note", "queue is missing: it goes to default when it is retried.")
    for name in _TIMES:
        value = job.item.get(name)
        if type(value) is int and 0 < value < MILLISECONDS_FROM:
            yield Remark(
                "warn",
                f"{name} is an integer of seconds: Sidekiq 8 takes integers for milliseconds. "
                "Write float seconds, or integer milliseconds.",
                "timestamps",
            )
        elif value is not None and type(value) not in (int, float):
            yield Remark("warn", f"{name} is no number.")
    yield from _of_workers(job)


def _of_workers(job: JobRecord) -> Iterator[Remark]:
    if type(job.item.get("retry", True)) not in (bool, int):
        yield Remark("warn", "retry is neither true, false nor a number.")
    for name, text in _FOREIGN.items():
        if job.item.get(name):
            yield Remark("warn", f"{name}: {text}")
    if job.error_class in _UNKNOWN_CLASS and (
        job.error_class == "JobNotFound" or job.error_message.startswith("uninitialized constant")
    ):
        yield Remark(
            "bad",
            "The worker that took it last knows no such class: deploy it, or move the job to a queue "
            "whose workers know it.",
        )
