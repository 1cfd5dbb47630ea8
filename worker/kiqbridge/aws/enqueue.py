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
from typing import Any, Protocol, Self

from kiqbridge import seams
from kiqbridge.aws import sources
from kiqbridge.aws.allow_list import AllowList
from kiqbridge.aws.environment import open_client
from kiqbridge.aws.job_forms import is_job_form
from kiqbridge.aws.plain import trace_attributes
from kiqbridge.aws.push import DepthGate, FleetPusher, HeldBack, Pusher, Pushing, in_order
from kiqbridge.aws.record import Record, Result, answer_of, leaves
from kiqbridge.aws.requests import ArgumentSchemas, EventMapper, Mapped, read_jobs, stamped
from kiqbridge.aws.sources.reading import texts_limited
from kiqbridge.client.client import Client
from kiqbridge.config.function_settings import ForFunctions, features_of
from kiqbridge.config.setting import read
from kiqbridge.errors import ConfigError, EventError, KiqbridgeError, PayloadError
from kiqbridge.runtime import redaction
from kiqbridge.runtime.records import dataclass

UNKNOWN = "unknown"
"""The source of an event that could not be read."""

PUBLISH = "publish"
"""The key of a direct invocation that publishes the schedules of the template."""


class Publishes(Protocol):
    """What publishes the schedules of the template, of the feature publishing."""

    def once(self, by: str) -> dict[str, Any] | None:
        """Publish, unless this environment has; never raises. What became of it; None: nothing worth a line."""

    def is_command(self, event: object) -> bool:
        """Whether an event is a direct invocation that asks for this, well or badly."""

    def command(self, event: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Do what it asks for."""


@dataclass(slots=True, kw_only=True)
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
        needs_item_failures: whether records of an event source failed, which are lost unless it reads
            `batchItemFailures`.
    """

    source: str
    results: Sequence[Result] = ()
    answer: Any = None
    error: Exception | None = None
    ignored: str = ""
    push_ms: float | None = None
    published: Mapping[str, Any] | None = None
    needs_item_failures: bool = False

    def answer_or_raise(self) -> Any:
        """What the function returns, or raises."""
        if self.error is not None:
            raise self.error
        return self.answer


@dataclass(slots=True)
class Enqueuer:
    """Enqueues what events ask for; one serves all invocations of a warm environment.

    Attributes:
        pusher: pushes.
        allowed: what may be enqueued.
        mapper: makes jobs of events that are none; None = such events are refused.
        schemas: what the arguments of a class must be; None = anything.
        auth: how callers of HTTP must have been authenticated.
        max_event_bytes: the largest text that is parsed.
        shows_arguments: whether messages about events may show values of theirs.
        publisher: publishes the schedules of the template after the first push, before a tick; None = none
            does.
    """

    pusher: Pushing
    allowed: AllowList
    mapper: EventMapper | None = None
    schemas: ArgumentSchemas | None = None
    auth: Sequence[str] = sources.DEFAULT_AUTH
    max_event_bytes: int = ForFunctions.max_event_bytes.default
    shows_arguments: bool = True
    publisher: Publishes | None = None

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], folder: Path | None = None, pusher: Pushing | None = None
    ) -> Self:
        """Compose one from REDIS_…, KIQBRIDGE_… and the mappings; connects at the first push.

        Args:
            environ: the environment.
            folder: the function's own, where its mappings lie; None = it has none.
            pusher: pushes; None = one for the Redis of the environment, which then publishes schedules, too.

        Raises:
            ConfigError: the address, a setting or the file of mappings is wrong.
        """
        publisher = None
        if pusher is None:
            client = open_client(environ)
            make = partial(_pusher, client, environ)
            pusher = FleetPusher(make, client.fleets.name_of) if client.fleets else make()
            stack = read(ForFunctions.stack, environ)
            if stack and (owner := seams.named("publishing")):
                publisher = owner.load("function:Publisher")(client, stack)
        allowed, mapped = AllowList.from_environment(environ), Mapped()
        if folder is not None and (owner := seams.named(ForFunctions.mappings.feature)):
            mapped = owner.load(owner.mapper)(environ, folder) or mapped
        elif folder is not None and any(map(_declares, folder.glob("mappings.*"))):
            raise ConfigError(
                f"{folder}: its mappings need the feature {ForFunctions.mappings.feature}, which is not here; remove the file"
            )
        if mapped.rules is not None:
            allowed = replace(allowed, rules=mapped.rules)
        return cls(
            pusher,
            allowed,
            mapped.mapper,
            mapped.schemas,
            read(ForFunctions.http_auth, environ),
            max_event_bytes=read(ForFunctions.max_event_bytes, environ),
            shows_arguments=read(ForFunctions.log_arguments, environ),
            publisher=publisher,
        )

    def mapping_of(self, record: Record) -> str:
        """File, line and name of the mappings that take a record; "" = none, or it is a job by itself.

        Raises:
            EventError: a filter cannot be evaluated.
        """
        if (mapper := self.mapper) is None:
            return ""
        mapped = [
            each
            for each in leaves(record)
            if not (each.error or each.ignored or is_job_form(each.job))
        ]
        found = (mapper.find(each)[0] for each in mapped)
        return ", ".join(dict.fromkeys(mapper.place(each) for each in found if each is not None))

    def handle(
        self, event: object, *, now: float, by: str = "lambda", xray: str = "", alias: str = ""
    ) -> Handled:
        """Enqueue what an event asks for; an error is part of what is returned, not raised.

        Args:
            event: of any source that `sources.read` knows.
            now: epoch seconds from which `in` counts.
            by: who delivers, kept in the ledger of ticks for operators.
            xray: trace header of the invocation, for jobs that came with no trace of their own.
            alias: by which the function was invoked, as `Sender.alias`.

        Returns:
            What became of each record, and `Answer` of a direct invocation, of a batch its `batchItemFailures`.
            The error is EventError, PayloadError or NotAllowed for what is refused: nothing was written. It is
            RedisUnavailable or RedisRefused if nothing was written either, PushOutcomeUnknown if the reply was
            lost, only without tick and dedupe_key.
        """
        alias = self.allowed.seen_alias(alias)
        shown = contextlib.nullcontext() if self.shows_arguments else redaction.arguments_hidden()
        with texts_limited(self.max_event_bytes), shown:
            # With rules an alias has what they name: not what no rule is about.
            is_own = not alias or self.allowed.rules is None
            if is_own and self.publisher is not None and self.publisher.is_command(event):
                return _published(self.publisher, event, by)
            try:
                spilled = self.pusher.read_spilled(event) if is_own else None
                delivery = spilled or sources.read(event, self.auth)
            except (EventError, PayloadError) as error:
                return Handled(source=UNKNOWN, error=error)
            handled = Handled(source=delivery.source, ignored=delivery.ignored)
            records = delivery.records
            if xray or alias:
                trace = trace_attributes(xray=xray)
                records = [
                    replace(each, trace=each.trace or trace, alias=alias) for each in records
                ]

            def push(passed: Sequence[Record]) -> list[Result]:
                if self.publisher and any(each.tick for each in passed):
                    # A deployment has changed which jobs its schedules name: their ticks go by that.
                    handled.published = self.publisher.once(by)
                began = time.perf_counter()
                results = self.pusher.push(passed, delivery.answering, by)
                handled.push_ms = round((time.perf_counter() - began) * 1000, 3)
                return results

            results = handled.results = in_order(
                records, delivery.answering, lambda place: self._check(records[place], now), push
            )
            if delivery.answer is not None:
                handled.answer = delivery.answer(results)
                if delivery.of_event_source:
                    failures = sum([each.error is not None for each in results])
                    handled.needs_item_failures = failures > 0
                    # Raised, so that Lambda delivers all of it again, however it is configured.
                    if failures == len(results):
                        handled.error = _reason(results)
            else:
                handled.error = _reason(results)
                handled.answer = delivery.success or answer_of(results)
            if self.publisher and not handled.published and any(each.jobs for each in results):
                handled.published = self.publisher.once(by)
            return handled

    def _check(self, record: Record, now: float) -> Record | Result:
        """The record with the jobs that may be pushed, or its result."""
        try:
            read = read_jobs(record, now, self.mapper)
            if read.ignored:
                return Result(record=read)
            if read.accepted_from is None:  # else it was stamped when it was first seen
                read = stamped(read)
            schedule = None if read.tick is None else read.tick.schedule
            for job in read.jobs:
                self.allowed.check(job.item, read.sender, schedule)
                if self.schemas is not None:
                    self.schemas.check(job.item)
        except (EventError, PayloadError) as error:
            return Result(record=record, error=error)
        return read


def _published(publisher: Publishes, event: Any, by: str) -> Handled:
    try:
        answer = publisher.command(event, by)
    except KiqbridgeError as error:
        return Handled(source=PUBLISH, error=error)
    return Handled(source=PUBLISH, answer=answer, published=answer)


def _pusher(client: Client, environ: Mapping[str, str]) -> Pushing:
    gate = DepthGate(read(ForFunctions.queue_limits, environ))
    pusher = Pusher(
        client,
        tick_ahead_s=read(ForFunctions.tick_ahead_s, environ),
        tick_offset_s=read(ForFunctions.tick_offset_s, environ),
        gate=gate,
    )
    gate.check_spill(has_queue=bool(read(ForFunctions.spill_queue_url, environ)))
    for each in features_of(environ):
        if each.pusher:
            pushing: Pushing = each.load(each.pusher)(pusher, environ)
            return pushing
    return pusher


def _declares(path: Path) -> bool:
    """Whether a file holds more than comments."""
    lines = path.read_text("utf-8").splitlines()
    return any(line.strip() and not line.lstrip().startswith("#") for line in lines)


def _reason(results: Sequence[Result]) -> Exception | None:
    """Why the invocation fails: the first error that is not another one's consequence."""
    errors = [each.error for each in results if each.error is not None]
    return next((each for each in errors if not isinstance(each, HeldBack)), None)
