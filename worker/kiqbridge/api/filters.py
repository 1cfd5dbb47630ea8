"""Which jobs of many are meant: by class, error, queue, age, tag, argument, text."""

import json
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Final

from kiqbridge.errors import PayloadError
from kiqbridge.wire.job_record import JobRecord

_GLOB: Final = "*?["


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A job matches if all that is given applies; an empty one matches every job.

    Attributes:
        job_class: glob for the class as people know it, or as it stands on the wire, such as `Billing::*`.
        error_class: glob for the class of the last error.
        error: text that the last error's message contains, in any case.
        queue: glob for the queue.
        tag: one of its tags.
        arg: text that its arguments, as JSON, contain.
        text: text that the whole job, as it lies in Redis, contains.
        older_than_s: seconds since it failed last, or else was enqueued, or created.
        newer_than_s: likewise.
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

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) not in ("", None) for field in fields(self))

    def __str__(self) -> str:
        """As people write it: `class=Mail error_class=OSError`."""
        names = {"job_class": "class"}
        given = ((field.name, getattr(self, field.name)) for field in fields(self))
        return " ".join(
            f"{names.get(name, name)}={value}" for name, value in given if value not in ("", None)
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
        """Whether a job is meant; `now` is epoch seconds."""
        return (
            (
                not self.job_class
                or fnmatchcase(job.display_class, self.job_class)
                or fnmatchcase(job.job_class, self.job_class)
            )
            and (not self.error_class or fnmatchcase(job.error_class, self.error_class))
            and self.error.casefold() in job.error_message.casefold()
            and (not self.queue or fnmatchcase(job.queue, self.queue))
            and (not self.tag or self.tag in job.tags)
            and self._matches_text(job)
            and self._matches_age(job, now)
        )

    def _matches_text(self, job: JobRecord) -> bool:
        if self.text and _bytes_of(self.text) not in job.text:
            return False
        return not self.arg or any(self.arg in shown_argument(each) for each in job.display_args)

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


def parse_filter(values: dict[str, str]) -> Filter:
    """A filter out of texts, as a query string or the command line gives them; `class` is `job_class`.

    Raises:
        PayloadError: an unknown name, or an age that is no number; names it.
    """
    known = {field.name for field in fields(Filter)}
    given: dict[str, str | float] = {}
    for name, value in values.items():
        attribute = "job_class" if name == "class" else name
        if attribute not in known:
            raise PayloadError(
                f"{name}: there is no such filter; there are {', '.join(sorted(known))}"
            )
        if not value:
            continue
        if attribute.endswith("_s"):
            try:
                given[attribute] = float(value)
            except ValueError:
                raise PayloadError(f"{name}: {value!r} is no number of seconds") from None
        else:
            given[attribute] = value
    return Filter(**given)  # type: ignore[arg-type]


def age_starts_at(job: JobRecord) -> float | None:
    """When it failed last, else was enqueued, else created; epoch seconds."""
    for moment in (job.retried_at, job.failed_at, job.enqueued_at, job.created_at):
        if moment is not None:
            return moment
    return None


def shown_argument(value: object) -> str:
    """An argument as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _bytes_of(text: str) -> bytes:
    """As a name out of Redis, or else as the lone surrogates that it holds, which no job's text does."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
