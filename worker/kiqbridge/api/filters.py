"""Which jobs of many are meant: by class, error, queue, age, tag, argument, text."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from fnmatch import fnmatchcase
from glob import escape
from typing import Final

from kiqbridge.errors import PayloadError
from kiqbridge.wire.amounts import instant_text, span_of
from kiqbridge.wire.job_record import JobRecord

_GLOB: Final = "*?["
NAMES: Final[Mapping[str, str]] = {
    "class": "job_class",
    "error_class": "error_class",
    "error": "error",
    "queue": "queue",
    "tag": "tag",
    "arg": "arg",
    "text": "text",
    "jid": "text",
    "batch": "text",
    "older": "older_than_s",
    "newer": "newer_than_s",
    "due_after": "due_after",
    "due_before": "due_before",
}
"""Name in an expression → attribute of a filter."""
_DUE: Final = ("due_after", "due_before")
_ALSO_TEXT: Final = ("jid", "batch")
_TERM: Final = re.compile(r'(?:([a-z_]+):(?!//))?(?:"((?:[^"\\]|\\.)*)"|(\S+))')


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A job matches if all that is given applies; an empty one matches every job.

    Attributes:
        job_class: glob for the class as people know it, or as it stands on the wire, such as `Billing::*`.
        error_class: glob for the class of the last error.
        error: text that class or message of the last error contain, in any case.
        queue: glob for the queue.
        tag: one of its tags.
        arg: text that its arguments, as JSON, contain.
        text: text that the whole job, as it lies in Redis, contains.
        older_than_s: seconds since it failed last, or else was enqueued, or created.
        newer_than_s: likewise.
        due_after, due_before: epoch seconds between which it is due; of what is in no set nothing matches.
    """

    job_class: str = ""
    error_class: str = ""
    error: str = ""
    queue: str = ""
    tag: str = ""
    arg: str = ""
    text: str = ""
    older_than_s: float | None = None
    newer_than_s: float | None = None
    due_after: float | None = None
    due_before: float | None = None

    @classmethod
    def of_class(cls, job_class: str, error_class: str = "") -> "Filter":
        """A filter for jobs of exactly this class, and with this error if one is given."""
        return cls(job_class=escape(job_class), error_class=escape(error_class))

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) not in ("", None) for field in fields(self))

    def __str__(self) -> str:
        """As people write it: `class:Mail error_class:OSError`; `parse_search` reads it."""
        given = ((name, each, getattr(self, each)) for name, each in NAMES.items())
        return " ".join(
            f"{name}:{instant_text(value) if attribute in _DUE else _quoted(value)}"
            for name, attribute, value in given
            if value not in ("", None) and name not in _ALSO_TEXT
        )

    def needle(self) -> bytes:
        """Bytes that the text of each job that matches contains, for a first look at the server; b"" if none are sure."""
        given = (self.text, self.job_class, self.error_class)
        sure = [each for each in given if each and not any(sign in each for sign in _GLOB)]
        # JSON may write these in several ways, and `Mailer#method` stands in no text.
        plain = [
            each for each in sure if each.isascii() and not any(sign in each for sign in '"\\/#')
        ]
        return max(plain, key=len, default="").encode()

    def matches(self, job: JobRecord, now: float) -> bool:
        """Whether a job matches; `now` is epoch seconds."""
        return (
            (
                not self.job_class
                or fnmatchcase(job.display_class, self.job_class)
                or fnmatchcase(job.job_class, self.job_class)
            )
            and (not self.error_class or fnmatchcase(job.error_class, self.error_class))
            and self.error.casefold() in f"{job.error_class}: {job.error_message}".casefold()
            and (not self.queue or fnmatchcase(job.queue, self.queue))
            and (not self.tag or self.tag in job.tags)
            and self._matches_text(job)
            and self._matches_age(job, now)
            and self._matches_due(job)
        )

    def _matches_text(self, job: JobRecord) -> bool:
        if self.text and sought_bytes(self.text) not in job.text:
            return False
        return not self.arg or any(self.arg in shown_argument(each) for each in job.display_args)

    def _matches_due(self, job: JobRecord) -> bool:
        if self.due_after is None and self.due_before is None:
            return True
        at: float | None = getattr(job, "at", None)
        return (
            at is not None
            and (self.due_after is None or at >= self.due_after)
            and (self.due_before is None or at < self.due_before)
        )

    def _matches_age(self, job: JobRecord, now: float) -> bool:
        if self.older_than_s is None and self.newer_than_s is None:
            return True
        since = age_starts_at(job)
        if since is None:
            return False
        age = now - since
        return (self.older_than_s is None or age > self.older_than_s) and (
            self.newer_than_s is None or age < self.newer_than_s
        )


def parse_search(expression: str) -> Filter:
    """A filter out of one expression, as people write it into the search: `class:Mail* error:timeout older:2h`.

    A word without a name, and jids of jobs and batches, are sought in the whole text of a job. A value with blanks is
    put into quotation marks: `error:"no reply"`.

    Raises:
        PayloadError: an unknown name, a name given twice, or an age that is no duration; names it.
    """
    terms, words = parse_terms(expression, NAMES)
    given: dict[str, str | float] = {}
    for name, value in terms.items():
        if NAMES[name] in given:
            raise PayloadError(f"{name}: it is given twice, and all that is given must apply")
        given[NAMES[name]] = _parsed(name, value)
    if words:
        if "text" in given:
            raise PayloadError("text: it is given twice, and all that is given must apply")
        given["text"] = words
    return Filter(**given)  # type: ignore[arg-type]


def _parsed(name: str, value: str) -> str | float:
    if NAMES[name].endswith("_s"):
        return parse_age(name, value)
    return _epoch_of(name, value) if name in _DUE else value


def parse_terms(expression: str, names: Collection[str]) -> tuple[dict[str, str], str]:
    """The values of an expression by name, and all words without one.

    Raises:
        PayloadError: another name than these, or one that is given twice.
    """
    given: dict[str, str] = {}
    words: list[str] = []
    for name, quoted, bare in _TERM.findall(expression):
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted else bare
        if not name:
            words.append(value)
        elif name not in names:
            raise PayloadError(
                f"{name}: there is no such name to search by; there are {', '.join(names)}. To find the text "
                f'{name}:{value} itself, write "{name}:{value}"'
            )
        elif name in given:
            raise PayloadError(f"{name}: it is given twice, and all that is given must apply")
        else:
            given[name] = value
    return given, " ".join(words)


def parse_age(name: str, value: str) -> float:
    """Seconds out of the value that a term of this name has.

    Raises:
        PayloadError: it is no duration.
    """
    age = span_of(value)
    if age is None:
        raise PayloadError(f"{name}: {value!r} is no duration; write 90, 90s, 15m, 2h or 1d")
    return age


def _epoch_of(name: str, value: str) -> float:
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise PayloadError(f"{name}: {value!r} is no time with a zone; write 2026-03-28T00:00:00Z")
    return found.timestamp()


def age_starts_at(job: JobRecord) -> float | None:
    """When it failed last, else was enqueued, else created; epoch seconds."""
    for moment in (job.retried_at, job.failed_at, job.enqueued_at, job.created_at):
        if moment is not None:
            return moment
    return None


def _quoted(value: str | float) -> str:
    if not isinstance(value, str):
        return f"{value:g}"
    return (
        value if re.fullmatch(r'[^\s"]+', value) else '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    )


def shown_argument(value: object) -> str:
    """An argument as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def sought_bytes(text: str) -> bytes:
    """As a name out of Redis, or else as the lone surrogates that it holds, which no job's text does."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
