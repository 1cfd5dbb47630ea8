"""From an event to its answer: read it, check it against the allow-list, push it, answer the service.

Everything is checked before Redis is asked. A direct invocation is pushed as a whole or not at all; of a
batch each record is. Services deliver again after an error: a tick, a job with a `dedupe_key` and
whatever came with an identity of its own are then recognized. A job with none of these is pushed without
a guard: when its reply is lost, `PushOutcomeUnknown` is raised, and delivering it again may enqueue it
twice.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kiqbridge import redaction
from kiqbridge.aws import sources
from kiqbridge.aws.allow_list import AllowList
from kiqbridge.aws.answers import answer_of
from kiqbridge.aws.depth import DepthGate
from kiqbridge.aws.environment import open_client
from kiqbridge.aws.job_forms import is_job_form
from kiqbridge.aws.mapping import document
from kiqbridge.aws.push import Asked, HeldBack, Pusher, Pushing, held_back, stamped
from kiqbridge.aws.record import Answering, Delivery, Done, Record, Result, leaves
from kiqbridge.aws.requests import Ignored, request_of
from kiqbridge.aws.sources.http_rules import HttpRules
from kiqbridge.aws.sources.text_limit import texts_limited
from kiqbridge.aws.trace import attributes
from kiqbridge.client.client import Client
from kiqbridge.config.function_settings import (
    HTTP_AUTH,
    LOG_ARGUMENTS,
    MAPPINGS,
    MAX_EVENT_BYTES,
    QUEUE_LIMITS,
    SPILL_FIFO_QUEUE_URL,
    SPILL_QUEUE_URL,
    STACK,
    TICK_AHEAD_S,
    TICK_OFFSET_S,
)
from kiqbridge.config.setting import read
from kiqbridge.errors import EventError, KiqbridgeError, PayloadError
from kiqbridge.records import dataclass

if TYPE_CHECKING:
    from kiqbridge.aws.mapping.mapper import Mapper
    from kiqbridge.aws.mapping.schemas import JobSchemas
    from kiqbridge.aws.publishing import Publisher

UNKNOWN = "unknown"
"""The source of an event that could not be read."""

PUBLISH = "publish"
"""That of a direct invocation that publishes the schedules of the template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """What became of an event.

    Attributes:
        source: name of the service's form; `unknown` if it could not be read.
        results: for each record, in the order of delivery.
        answer: what the function returns, unless there is an error.
        error: what the function raises, so that the caller knows or the service delivers again.
        ignored: why the event asks for nothing; "" = it does.
        push_ms: milliseconds that pushing took; None = nothing was pushed.
        published: what became of the manifest of schedules; None = nothing worth a line.
    """

    source: str
    results: Sequence[Result] = ()
    answer: Any = None
    error: Exception | None = None
    ignored: str = ""
    push_ms: float | None = None
    published: Mapping[str, Any] | None = None


class Enqueuer:
    """Enqueues what events ask for; one serves all invocations of a warm environment.

    Args:
        pusher: pushes.
        allowed: what may be enqueued.
        mapper: makes jobs of events that are none; None = such events are refused.
        schemas: what the arguments of a class must be; None = anything.
        http: which HTTP requests may ask for jobs.
        shows_arguments: whether messages about events may show values of theirs.
        publisher: publishes the schedules of the template after the first push, before a tick; None = nobody
            does.
    """

    def __init__(
        self,
        pusher: Pushing,
        allowed: AllowList,
        mapper: "Mapper | None" = None,
        schemas: "JobSchemas | None" = None,
        http: HttpRules = sources.DEFAULT_HTTP,
        *,
        shows_arguments: bool = True,
        publisher: "Publisher | None" = None,
    ) -> None:
        self._publisher = publisher
        self._pusher = pusher
        self._allowed = allowed
        self._mapper = mapper
        self._schemas = schemas
        self._http = http
        self._shows_arguments = shows_arguments

    def __repr__(self) -> str:
        return f"Enqueuer({self._pusher!r}, {self._allowed!r})"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], folder: Path | None = None) -> Self:
        """Compose one from REDIS_…, KIQBRIDGE_… and the mappings; connects at the first push.

        Args:
            environ: the environment.
            folder: the function's own, where its mappings lie; None = it has none.

        Raises:
            ConfigError: the address, a setting or the file of mappings is wrong.
        """
        client = open_client(environ)
        publisher = None
        if stack := read(STACK, environ):
            from kiqbridge.aws.publishing import Publisher  # noqa: PLC0415 - where there is a stack

            publisher = Publisher(client, stack)
        pusher: Pushing
        if client.fleets is None:
            pusher = _pusher(client, environ)
        else:
            from kiqbridge.aws.by_fleet import FleetPusher  # noqa: PLC0415 - few have fleets

            pusher = FleetPusher(partial(_pusher, client, environ), client.fleets.name_of)
        return cls.with_mappings(pusher, environ, folder, publisher)

    @classmethod
    def with_mappings(
        cls,
        pusher: Pushing,
        environ: Mapping[str, str],
        folder: Path | None,
        publisher: "Publisher | None" = None,
    ) -> Self:
        """As `from_environment`, with a pusher that is there.

        Raises:
            ConfigError: a setting or the file of mappings is wrong.
        """
        allowed = AllowList.from_environment(environ)
        http = HttpRules(
            auth=read(HTTP_AUTH, environ), max_event_bytes=read(MAX_EVENT_BYTES, environ)
        )
        shows_arguments = read(LOG_ARGUMENTS, environ)
        name = read(MAPPINGS, environ)
        path = document.find(folder, name) if folder is not None else None
        found = document.load(path) if path is not None else None
        if found is None:
            return cls(
                pusher,
                allowed,
                http=http,
                shows_arguments=shows_arguments,
                publisher=publisher,
            )
        # Loaded only where there are mappings: a cold start waits for each module.
        from kiqbridge.aws.mapping import declared  # noqa: PLC0415
        from kiqbridge.aws.mapping.mapper import Mapper  # noqa: PLC0415
        from kiqbridge.aws.mapping.schemas import JobSchemas  # noqa: PLC0415

        content = declared.read(found)
        return cls(
            pusher,
            replace(allowed, rules=content.rules),
            Mapper(found, content),
            JobSchemas(found, content.schemas) if content.schemas else None,
            http,
            shows_arguments=shows_arguments,
            publisher=publisher,
        )

    def mapping_of(self, record: Record) -> str:
        """File, line and name of the mappings that take a record; "" = none, or it is a job by itself.

        Raises:
            EventError: a filter cannot be evaluated.
        """
        if (mapper := self._mapper) is None:
            return ""
        mapped = [
            each
            for each in leaves(record)
            if not (each.error or each.ignored or is_job_form(each.job))
        ]
        found = (mapper.find(each)[0] for each in mapped)
        return ", ".join(dict.fromkeys(mapper.place(each) for each in found if each is not None))

    def enqueue(self, event: object, *, now: float, by: str = "lambda") -> Any:
        """Enqueue what an event asks for, and answer as its service expects it.

        Args:
            event: of any source that `sources.read` knows.
            now: epoch seconds from which `in` counts.
            by: who delivers, kept in the ledger of ticks for operators.

        Returns:
            `Answer` of a direct invocation; of a batch its `batchItemFailures`.

        Raises:
            EventError, PayloadError, NotAllowed: refused; nothing was written. Also a tick that is not
                due yet, and one so old that nobody knows whether it ran.
            RedisUnavailable, RedisRefused: nothing was written.
            PushOutcomeUnknown: sent, but the reply was lost; only without tick and dedupe_key.
        """
        handled = self.handle(event, now=now, by=by)
        if handled.error is not None:
            raise handled.error
        return handled.answer

    def handle(
        self,
        event: object,
        *,
        now: float,
        by: str = "lambda",
        xray: str = "",
        alias: str = "",
    ) -> Handled:
        """As `enqueue`, with what became of each record; an error is part of it, not raised.

        Args:
            event: as for `enqueue`.
            now: as for `enqueue`.
            by: as for `enqueue`.
            xray: trace header of the invocation, for jobs that came with no trace of their own.
            alias: by which the function was invoked, as `Sender.alias`.
        """
        shown = contextlib.nullcontext() if self._shows_arguments else redaction.arguments_hidden()
        with texts_limited(self._http.max_event_bytes), shown:
            return self._handle(event, now, by, xray, alias)

    def _handle(self, event: object, now: float, by: str, xray: str, alias: str) -> Handled:
        # With rules an alias has what they name: not what no rule is about.
        is_own = not alias or self._allowed.rules is None
        if is_own and self._publisher is not None and self._publisher.is_command(event):
            return self._published(self._publisher, event, by)
        try:
            delivery = self._read(event, is_own=is_own)
        except (EventError, PayloadError) as error:
            return Handled(source=UNKNOWN, error=error)
        if isinstance(delivery, Done):
            return Handled(source=delivery.source, answer=delivery.answer, ignored=delivery.why)
        if xray or alias:
            trace = attributes(xray=xray) if xray else {}
            records = [
                replace(each, trace=each.trace or trace, alias=alias) for each in delivery.records
            ]
            delivery = replace(delivery, records=records)
        results, push_ms, published = self._results(delivery, now, by)
        is_answered = delivery.answer is not None
        return Handled(
            source=delivery.source,
            results=results,
            answer=delivery.answer(results) if delivery.answer else _success(delivery, results),
            error=None if is_answered else _reason(results),
            push_ms=push_ms,
            published=published or self._after_push(results, by),
        )

    def _after_push(self, results: Sequence[Result], by: str) -> dict[str, Any] | None:
        if self._publisher is None or not any(each.jobs for each in results):
            return None
        return self._publisher.once(by)

    def _published(self, publisher: "Publisher", event: Any, by: str) -> Handled:
        try:
            answer = publisher.command(event, by)
        except KiqbridgeError as error:
            return Handled(source=PUBLISH, error=error)
        return Handled(source=PUBLISH, answer=answer, published=answer)

    def _read(self, event: object, *, is_own: bool) -> Delivery | Done:
        if is_own and self._pusher.has_spilled(event):
            return sources.read_spilled(event)
        return sources.read(event, self._http)

    def _results(
        self, delivery: Delivery, now: float, by: str
    ) -> tuple[list[Result], float | None, dict[str, Any] | None]:
        """What became of each record, for how long it was pushed, and what was published before a tick.

        All that may be pushed is, together.
        """
        results: dict[int, Result] = {}
        asked: dict[int, Asked] = {}
        failed: set[str | None] = set()
        for place, record in enumerate(delivery.records):
            if record.group in failed:
                results[place] = held_back(record)
                continue
            checked = self._checked(record, now)
            if isinstance(checked, Asked):
                asked[place] = checked
                continue
            results[place] = checked
            if checked.error is not None and delivery.answering is not Answering.EACH:
                failed.add(record.group)
        if failed and delivery.answering is Answering.WHOLE:
            results |= {place: held_back(each.record) for place, each in asked.items()}
            asked = {}
        push_ms = published = None
        if asked:
            if self._publisher and any(each.request.tick for each in asked.values()):
                # A deployment has changed which jobs its schedules name: their ticks go by that.
                published = self._publisher.once(by)
            began = time.perf_counter()
            pushed = self._pusher.push(list(asked.values()), delivery.answering, by)
            push_ms = round((time.perf_counter() - began) * 1000, 3)
            results |= dict(zip(asked, pushed, strict=True))
        return [results[place] for place in range(len(delivery.records))], push_ms, published

    def _checked(self, record: Record, now: float) -> Asked | Result:
        try:
            request = request_of(record, now, self._mapper)
            if isinstance(request, Ignored):
                return Result(record=record, ignored=request.why)
            asked = Asked(record, request)
            if request.sender is None:  # else it was stamped when it was first seen
                asked = stamped(asked)
            sender = request.sender or record.sender
            schedule = None if request.tick is None else request.tick.schedule
            for job in asked.request.jobs:
                self._allowed.check(job.item, sender, schedule)
                if self._schemas is not None:
                    self._schemas.check(job.item)
        except (EventError, PayloadError) as error:
            return Result(record=record, error=error)
        return asked


def _success(delivery: Delivery, results: Sequence[Result]) -> Any:
    return answer_of(results) if delivery.success is None else delivery.success


def _pusher(client: Client, environ: Mapping[str, str]) -> Pushing:
    gate = DepthGate(read(QUEUE_LIMITS, environ))
    pusher = Pusher(
        client,
        tick_ahead_s=read(TICK_AHEAD_S, environ),
        tick_offset_s=read(TICK_OFFSET_S, environ),
        gate=gate,
    )
    url, fifo_url = read(SPILL_QUEUE_URL, environ), read(SPILL_FIFO_QUEUE_URL, environ)
    gate.check_spill(has_queue=bool(url))
    if not (url or fifo_url):
        return pusher
    from kiqbridge.aws.spill import SpillingPusher  # noqa: PLC0415 - where it is set up
    from kiqbridge.aws.spill_queue import SpillQueues  # noqa: PLC0415

    return SpillingPusher(pusher, SpillQueues(url, fifo_url), client, gate=gate)


def _reason(results: Sequence[Result]) -> Exception | None:
    """Why the invocation fails: the first error that is not another one's consequence."""
    errors = [each.error for each in results if each.error is not None]
    return next((each for each in errors if not isinstance(each, HeldBack)), None)
